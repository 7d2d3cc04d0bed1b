import type { Command } from '../../core/build-plan.ts'
import { readableLevels } from '../../core/build-trust.ts'
import type { Logger } from '../../infra/log.ts'
import type { Slot } from '../sandbox/slots.ts'
import type { Workspace } from '../sandbox/workspace.ts'
import type { InstallPlan } from './install-inputs.ts'
import type { KeptFolders, KeptKey } from './kept-folders.ts'
import { type Install, takeInstall } from './kept-installs.ts'
import { type PackageCache, takePackages } from './package-cache.ts'

/** The facts that decide which packages a build needs. */
export interface PackagesPlan extends Omit<InstallPlan, 'install' | 'environment'> {
  /** Undefined when there is nothing to install. */
  readonly install: Command | undefined
  readonly lockSha256: string | undefined
}

export interface PackagesOptions {
  readonly keptFolders: KeptFolders
  readonly owner: Pick<KeptKey, 'project_id' | 'trust'>
  readonly workspace: Workspace
  readonly slot: Slot
  /** Whether the isolation keeps one project from another's packages; without it, builds share nothing. */
  readonly isIsolated: () => boolean
  /** The result of the function of that name; undefined when only an install shows its result. */
  readonly nameInstall: (plan: InstallPlan) => Promise<string | undefined>
  /** The whole environment of an install. */
  readonly environmentOf: (manager: PackagesPlan['packageManager']) => Record<string, string>
  /** Writes a line into the build log. */
  readonly report: (line: string) => void
  readonly log: Logger
}

/** The packages of one build: those kept from earlier builds, and those that it keeps for later ones. */
export interface Packages {
  /** The restored packages of an earlier install; undefined when the packages must be installed. */
  readonly restored: Install['restored']
  /** Whether the home folder holds the downloads of an earlier build. */
  readonly hasDownloads: boolean
  /**
   * Restores the packages of an earlier build.
   * @param root the root folder inside the build
   */
  take(plan: PackagesPlan, root: string): Promise<void>
  /** To be called between the install and the build, when no process runs. */
  installed(): Promise<void>
  /** Keeps the installed packages for the next build. Only after every process of the build has ended. */
  keep(): Promise<void>
}

export function createPackages(options: PackagesOptions): Packages {
  const { keptFolders, owner, workspace, slot, report, log } = options
  let install: Install | undefined
  let downloads: PackageCache | undefined

  return {
    get restored() {
      return install?.restored
    },
    get hasDownloads() {
      return downloads?.isWarm ?? false
    },
    async take(plan, root) {
      if (!options.isIsolated() || readableLevels(owner.trust).length === 0) return
      install = await takeInstallOf(plan, root)
      if (!install?.restored) downloads = await takeDownloads(plan)
    },
    async installed() {
      await install?.remember()
      await downloads?.setAside().catch((error) => log.warn({ err: error }, 'packages not kept'))
    },
    async keep() {
      await install?.keep().catch((error) => log.warn({ err: error }, 'installed packages not kept'))
    },
  }

  async function takeInstallOf({ install, ...plan }: PackagesPlan, root: string): Promise<Install | undefined> {
    if (!install) return undefined
    const name = await options.nameInstall({ ...plan, install, environment: options.environmentOf(plan.packageManager) })
    if (name === undefined) return undefined
    return await takeInstall(keptFolders, { ...owner, name, root, folder: plan.installFolder }, workspace, slot)
  }

  async function takeDownloads({ node, packageManager, lockSha256 }: PackagesPlan): Promise<PackageCache | undefined> {
    if (lockSha256 === undefined) return undefined
    const request = { ...owner, lockSha256, packageManager, tools: `node-${node} ${packageManager}` }
    const cache = await takePackages(keptFolders, request, workspace, slot)
    if (cache.isWarm) report('packages of an earlier build with this lock file are at hand')
    return cache
  }
}
