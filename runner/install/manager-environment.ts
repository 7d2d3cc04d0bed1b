import type { PackageManager } from '../../core/build-plan.ts'

/** The folder inside the home folder where package managers keep their downloads. */
export const packagesFolder = 'packages'

/**
 * The variables of a package manager for a build.
 * @param home the home folder of the build
 * @param hasDownloads whether that folder has the downloads of an earlier build
 */
export function managerEnvironment(manager: PackageManager, home: string, hasDownloads: boolean): Record<string, string> {
  const folder = `${home}/${packagesFolder}`
  const npm = {
    npm_config_cache: `${folder}/npm`,
    npm_config_update_notifier: 'false',
    npm_config_fund: 'false',
    npm_config_audit: 'false',
    npm_config_progress: 'false',
    // the default waits of 10 and 60 seconds are for unreliable networks; a refused host stays refused
    npm_config_fetch_retry_mintimeout: '1000',
    npm_config_fetch_retry_maxtimeout: '5000',
    ...(hasDownloads && { npm_config_prefer_offline: 'true' }),
  }
  if (manager === 'npm') return npm
  if (manager === 'yarn-1') return { ...npm, YARN_CACHE_FOLDER: `${folder}/yarn`, SKIP_YARN_COREPACK_CHECK: '1' }
  if (manager.startsWith('yarn-')) {
    return { ...npm, YARN_GLOBAL_FOLDER: `${folder}/yarn`, YARN_ENABLE_TELEMETRY: 'false', YARN_ENABLE_PROGRESS_BARS: 'false' }
  }
  return {
    ...npm,
    npm_config_store_dir: `${folder}/pnpm-store`,
    npm_config_cache_dir: `${folder}/pnpm-cache`,
    // the lock file decides which pnpm runs, whatever "packageManager" names
    npm_config_manage_package_manager_versions: 'false',
    npm_config_package_manager_strict: 'false',
  }
}

/** The folder inside the home folder where pip installs packages. */
export const pythonFolder = 'python'

/** The variables of pip, which makes a virtual environment before its first install. */
export function pipEnvironment(home: string): Record<string, string> {
  return {
    VIRTUAL_ENV: `${home}/${pythonFolder}`,
    PIP_CACHE_DIR: `${home}/${packagesFolder}/pip`,
    PIP_DISABLE_PIP_VERSION_CHECK: '1',
    PIP_NO_INPUT: '1',
    PIP_PROGRESS_BAR: 'off',
    PYTHONUNBUFFERED: '1',
  }
}
