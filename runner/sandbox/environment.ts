import type { CgroupLimits } from './cgroup.ts'

/** The paths of a build: inside the sandbox, or on the host when it runs without one. */
export interface BuildPaths {
  readonly toolchain: string
  /** Undefined when the build needs none besides npm. */
  readonly packageManager: string | undefined
  /** Undefined when the build needs none. */
  readonly generator?: string | undefined
  /** A folder that the build makes itself, whose programs come first; undefined when it makes none. */
  readonly made?: string | undefined
  readonly home: string
  readonly caBundle: string
}

/** The tools of a build. */
export interface BuildTools {
  /** The folder of Node and npm, with programs in `bin`. */
  readonly node: string
  /** The folder of another package manager, where the build needs one. */
  readonly packageManager?: string | undefined
  /** The folder of a generator that is no npm package, where the build needs one. */
  readonly generator?: string | undefined
  /** A folder inside the home folder that the build makes itself, whose programs in `bin` come first. */
  readonly made?: string | undefined
  /** Variables for the package manager, given the home folder as the build sees it. */
  readonly variables?: PackageVariables
}

export type PackageVariables = (home: string) => Readonly<Record<string, string>>

const MiB = 1024 * 1024

/**
 * The whole environment of a build: nothing of the runner's own is in it.
 * @param variables for the package manager
 */
export function buildEnvironment(
  at: BuildPaths,
  { memoryBytes }: Pick<CgroupLimits, 'memoryBytes'>,
  variables: PackageVariables = () => ({}),
): Record<string, string> {
  const folders = [at.made, at.toolchain, at.packageManager, at.generator, '/usr'].filter((folder) => folder !== undefined)
  return {
    PATH: [...folders.map((folder) => `${folder}/bin`), '/bin'].join(':'),
    HOME: at.home,
    TMPDIR: '/tmp',
    LANG: 'C.UTF-8',
    CI: 'true',
    // Node sees the machine's memory, not the cgroup's; with this it collects garbage before the kernel ends it
    NODE_OPTIONS: `--max-old-space-size=${Math.max(64, Math.floor((memoryBytes * 0.75) / MiB))}`,
    NODE_EXTRA_CA_CERTS: at.caBundle,
    SSL_CERT_FILE: at.caBundle,
    PIP_CERT: at.caBundle,
    ...variables(at.home),
  }
}

/**
 * Packs the variables of the commands into one, which the relay unpacks for them: set by themselves they would steer the relay, such as by
 * `NODE_COMPILE_CACHE`. In base64 the most that they may have fits into the 128 KiB of one variable.
 */
export function packVariables(variables: Readonly<Record<string, string>>): Record<string, string> {
  const packed = Object.entries(variables).map(([name, value]) => `${name}=${value}`)
  return packed.length === 0 ? {} : { PLINTH_PACKED: Buffer.from(packed.join('\0')).toString('base64') }
}
