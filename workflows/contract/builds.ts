import type { BuildSettings } from '../../core/build-settings.ts'
import type { TrustLevel } from '../../core/build-trust.ts'
import type { BuildMode } from '../../core/deploy.ts'

/** The input of a build: ids, hashes and limits. The runner has no database; all else that it needs are the variables, which it reads from the api. */
export interface BuildInput {
  readonly deploy_id: string
  /** The run that has the permit of the build. */
  readonly run: { readonly attempt: number; readonly run_id: string }
  readonly project_id: string
  readonly site_id: string
  /** The source archive in the CAS. */
  readonly source_sha256: string
  /** Inflated source and artifact may each have at most this many bytes; null is unlimited. */
  readonly storage_bytes: number | null
  /** The plan's title, for messages about its limits. */
  readonly plan_title: string
  /** Decides with which builds it shares kept packages. */
  readonly trust: TrustLevel
  /** Those of the site and of its git connection; `plinth.json` in the source overrides them. */
  readonly settings: BuildSettings
  /** The size of the log before the build. */
  readonly log_bytes?: number
}

/** The result of a build. A failure of the user's source is a normal result; a thrown error is the platform's fault and retried. */
export type BuildResult = {
  readonly build_mode: BuildMode
  /** Wall-clock seconds of the commands; 0 when none ran. */
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
      /** A text for the user: what went wrong, what to do, and the last lines of the log. */
      readonly error: string
    }
  /** Its deploy was cancelled while it ran. */
  | { readonly outcome: 'cancelled' }
)

/** The outcomes of builds in metrics; `failed` means because of the source. */
export const buildOutcomes = ['built', 'failed', 'platform_failure', 'cancelled'] as const
export type BuildOutcomeName = (typeof buildOutcomes)[number]

/** Activities of the build queue, implemented in `runner/`. */
export interface BuildActivities {
  buildSource(input: BuildInput): Promise<BuildResult>
}
