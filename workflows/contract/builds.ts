import type { BuildSettings } from '../../core/build-plan.ts'
import type { TrustLevel } from '../../core/build-trust.ts'
import type { BuildMode } from '../../core/deploy.ts'

/** What the build queue gets: ids, hashes and limits. The runner has no database, so everything it needs is here. */
export interface BuildInput {
  readonly deploy_id: string
  readonly project_id: string
  readonly site_id: string
  /** The source archive in the CAS. */
  readonly source_sha256: string
  /** Inflated source and artifact may each have at most this many bytes; null is unlimited. */
  readonly storage_bytes: number | null
  /** The plan's title, for messages about its limits. */
  readonly plan_title: string
  /** Folder of the source whose package.json is built; null is the root. */
  readonly root_dir: string | null
  /** Which packages of other builds it may get, and hand its own on to. */
  readonly trust: TrustLevel
  /** What the git connection of the site says of builds; absent when the source is not from it. */
  readonly settings?: BuildSettings
  /** Bytes of the log that were written before the build. */
  readonly log_bytes?: number
}

/** What a build leaves in the CAS. A failure of the user's source is a normal result; a thrown error is the platform's fault and retried. */
export type BuildResult = {
  readonly build_mode: BuildMode
  /** Wall seconds of the commands; 0 when none ran. */
  readonly build_seconds: number
  readonly skipped_paths: readonly string[]
} & (
  | {
      readonly outcome: 'built'
      /** A `Manifest` as JSON in the CAS; every file of it is stored. */
      readonly manifest_sha256: string
      readonly file_count: number
      readonly total_bytes: number
    }
  | {
      readonly outcome: 'failed'
      /** Text for the user: what went wrong, what to do, the last lines of the log. */
      readonly error: string
    }
)

/** How a build ends, as it is counted: `failed` is the source's fault. */
export const buildOutcomes = ['built', 'failed', 'platform_failure'] as const
export type BuildOutcomeName = (typeof buildOutcomes)[number]

/** Activities of the build queue, implemented in `runner/`. */
export interface BuildActivities {
  buildSource(input: BuildInput): Promise<BuildResult>
}
