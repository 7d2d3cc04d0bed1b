import { type BuildSettings, ownerOf } from './build-settings.ts'
import { type FrameworkName, frameworkIn } from './frameworks.ts'
import { isUtf16, notUtf8 } from './source-texts.ts'

export type Command = readonly [program: string, ...args: string[]]

/** The major versions of Node that builds may ask for; 20 is the default. */
export const nodeMajors = [18, 20, 22, 24] as const
export type NodeMajor = (typeof nodeMajors)[number]
export const defaultNodeMajor: NodeMajor = 20

/** Versions of one manager differ in the lock files that they read without changing them. */
export type PackageManager = 'npm' | 'pnpm-8' | 'pnpm-10' | 'yarn-1' | 'yarn-3' | 'yarn-4.13' | 'yarn-4.14' | 'yarn-4.18'

/** When a folder has several, the first of this list decides. */
export const lockFiles = ['package-lock.json', 'npm-shrinkwrap.json', 'pnpm-lock.yaml', 'yarn.lock'] as const

export interface LockFile {
  readonly name: (typeof lockFiles)[number]
  /** The beginning of the file, which has the version of its format. */
  readonly head: string
}

export type BuildPlan =
  | {
      readonly kind: 'build'
      readonly packageManager: PackageManager
      /** Undefined when nothing is to be installed. */
      readonly install: Command | undefined
      /** Whether the lock file decides what is installed, and how. */
      readonly isUsualInstall: boolean
      readonly build: Command
      /** The command or script of the project's own that builds it; empty when it has none. */
      readonly buildText: string
    }
  /** The source cannot be built; `error` says what to change. */
  | { readonly kind: 'refused'; readonly error: string }

const refused = (error: string) => ({ kind: 'refused', error }) as const

/**
 * Plans the commands of a build.
 * @param packageJson undefined when the source has none but the settings have a build command
 * @param lock the lock file that applies to the project
 * @param generator builds the site when package.json has no build script
 */
export function planBuild(
  packageJson: string | undefined,
  lock: LockFile | undefined,
  settings: BuildSettings,
  generator?: Command,
): BuildPlan {
  const { install_command, build_command } = settings
  const isUsualInstall = packageJson !== undefined && install_command === null
  const parsed = parsePackage(packageJson ?? '{}')
  if (parsed.kind === 'refused' && (isUsualInstall || build_command === null)) return parsed
  const script = parsed.kind === 'package' ? buildScriptOf(parsed.content) : undefined
  if (build_command === null && script === undefined && !generator) return noBuildScript(settings)
  const found = packageJson === undefined ? 'npm' : packageManagerOf(lock)
  // a lock file that the usual install cannot read does not matter to another command
  const packageManager = typeof found !== 'string' && !isUsualInstall ? 'npm' : found
  if (typeof packageManager !== 'string') return packageManager
  const [program = ''] = packageManager.split('-')
  const usualBuild: Command = script === undefined && generator ? generator : [program, 'run', 'build']
  const usual = isUsualInstall ? installCommand(packageManager, lock) : undefined
  return {
    kind: 'build',
    packageManager,
    install: install_command === null ? usual : shellCommand(install_command),
    isUsualInstall,
    build: build_command === null ? usualBuild : shellCommand(build_command),
    buildText: build_command ?? script ?? '',
  }
}

function buildScriptOf({ scripts }: Record<string, unknown>): string | undefined {
  const script = isRecord(scripts) ? scripts.build : undefined
  return typeof script === 'string' && script.trim() !== '' ? script : undefined
}

function noBuildScript(settings: BuildSettings) {
  const instead = settings.is_repository
    ? 'or name what builds the site in build_command of the git connection'
    : 'or leave package.json out of the archive to publish the files as they are'
  return refused(`package.json has no "build" script: add one to "scripts" (for example "build": "vite build"), ${instead}`)
}

/** Puts the programs of installed packages on the PATH, as for a script of package.json. */
const shellCommand = (text: string): Command => ['sh', '-c', 'PATH="$PWD/node_modules/.bin:$PATH"; eval "$0"', text]

/** The manager's name as people write it. */
export const commandText = (command: Command) => (command[0] === 'sh' ? (command.at(-1) ?? '') : command.join(' '))

function installCommand(manager: PackageManager, lock: LockFile | undefined): Command {
  if (manager === 'npm') return ['npm', lock ? 'ci' : 'install']
  if (manager === 'yarn-1') return ['yarn', 'install', '--frozen-lockfile']
  return manager.startsWith('pnpm-') ? ['pnpm', 'install', '--frozen-lockfile'] : ['yarn', 'install', '--immutable']
}

const pnpmByFormat: readonly [RegExp, PackageManager][] = [
  [/^9\./, 'pnpm-10'],
  [/^6\./, 'pnpm-8'],
]
const yarnByFormat: Readonly<Record<string, PackageManager>> = { 6: 'yarn-3', 8: 'yarn-4.13', 9: 'yarn-4.14', 10: 'yarn-4.18' }

/** The version that reads this lock file: newer and older ones would change or refuse it. */
function packageManagerOf(lock: LockFile | undefined): PackageManager | ReturnType<typeof refused> {
  if (lock?.name === 'pnpm-lock.yaml') return pnpmOf(lock.head)
  return lock?.name === 'yarn.lock' ? yarnOf(lock.head) : 'npm'
}

function pnpmOf(head: string): PackageManager | ReturnType<typeof refused> {
  const version = /^lockfileVersion:\s*['"]?([\w.-]{1,20})/m.exec(head)?.[1]
  const found = pnpmByFormat.find(([pattern]) => pattern.test(version ?? ''))?.[1]
  if (found) return found
  const has = version ? `lockfileVersion ${version}` : 'no lockfileVersion'
  return refused(
    `pnpm-lock.yaml has ${has}; builds read 9.0 (pnpm 9 and 10) and 6.0 (pnpm 8): run pnpm install with one of these and send the new pnpm-lock.yaml`,
  )
}

function yarnOf(head: string): PackageManager | ReturnType<typeof refused> {
  if (!/^__metadata:/m.test(head)) return 'yarn-1'
  const version = /^__metadata:\s+version: (\d{1,9})\r?$/m.exec(head)?.[1]
  const found = yarnByFormat[version ?? '']
  if (found) return found
  const has = version ? `format ${version}` : 'no version of its format'
  return refused(
    `yarn.lock has ${has}; builds read those of Yarn 1, 3 and 4 (6, 8, 9 and 10): run yarn install with Yarn 4 and send the new yarn.lock`,
  )
}

/** The range in `engines.node`; undefined when package.json has none or is invalid. */
export function enginesOf(packageJson: string): string | undefined {
  const parsed = parsePackage(packageJson)
  const engines = parsed.kind === 'package' ? parsed.content.engines : undefined
  const range = isRecord(engines) ? engines.node : undefined
  return typeof range === 'string' && range.trim() !== '' ? range.trim() : undefined
}

export function frameworkOf(packageJson: string): FrameworkName | undefined {
  const parsed = parsePackage(packageJson)
  return parsed.kind === 'package' ? frameworkIn(parsed.content) : undefined
}

function parsePackage(packageJson: string) {
  let content: unknown
  try {
    content = JSON.parse(packageJson.replace(/^\uFEFF/, ''))
  } catch (error) {
    if (isUtf16(packageJson)) return refused(`${notUtf8('package.json')} and deploy again`)
    return refused(`package.json is not valid JSON (${(error as Error).message}); correct it and deploy again`)
  }
  if (!isRecord(content)) return refused('package.json is not a JSON object; correct it and deploy again')
  return { kind: 'package', content } as const
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const noRootDir = (rootDir: string, settings: BuildSettings) => {
  const { is_repository } = settings
  const owner = ownerOf(settings, 'root_dir')
  return `the ${is_repository ? 'repository' : 'source'} has no folder ${JSON.stringify(rootDir)}, the root_dir of ${owner}; change root_dir of ${owner}, or ${is_repository ? 'push a commit' : 'send a source'} with this folder`
}

export const noStaticIndexIn = (rootDir: string, settings: BuildSettings) =>
  `${rootDir}, the root_dir of ${ownerOf(settings, 'root_dir')}, has neither package.json nor index.html; change root_dir, or ${settings.is_repository ? 'push' : 'send a source with'} one of them there`

export const noStaticIndex = ({ is_repository }: BuildSettings) =>
  is_repository
    ? 'the repository has no index.html at its root; name the folder that holds it in output_dir of the git connection, or what builds it in build_command, or add a package.json with a "build" script'
    : 'the archive has no index.html at its root; pack the folder that holds index.html, or add a package.json with a "build" script to have it built'
