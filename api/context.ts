import type { PlanName } from '../core/plans.ts'
import type { Scope } from '../core/scopes.ts'
import type { PermanentTokens } from '../infra/crypto/permanent-tokens.ts'
import type { ResizeLogo } from '../infra/images/resize-logo.ts'
import type { Messengers } from '../infra/messengers/open.ts'
import type { SiteChecks } from '../services/checks/find-recommendations.ts'
import type { LookUpDomain } from '../services/domains/look-up.ts'
import type { FindDefaultBranch } from '../services/git/default-branch.ts'
import type { Services } from '../services/services.ts'
import type { WorkflowClient } from '../workflows/client.ts'
import type { Admission } from './admission.ts'
import type { LiveFollowers } from './follow-live-stats.ts'
import type { LogFollowers } from './follow-logs.ts'

/** The dependencies of the control plane, made once per process. */
export interface Deps extends Services {
  /** See `infra/db/clock.ts`. */
  readonly clockSkewMs: () => number | undefined
  readonly permanentTokens: PermanentTokens
  readonly resizeLogo: ResizeLogo
  readonly logFollowers: LogFollowers
  readonly liveFollowers: LiveFollowers
  readonly siteChecks: SiteChecks
  readonly lookUpDomain: LookUpDomain
  readonly findDefaultBranch: FindDefaultBranch
  readonly messengers: Messengers
  readonly workflows: Pick<WorkflowClient, 'ping'>
  /** Limits what this process handles at once, shared fairly between projects. */
  readonly admission: Admission
  /** Aborted when the server is about to close, so that endless responses end. */
  readonly draining: AbortSignal
  /** Folder for the long strings of bodies in flight. */
  readonly spoolDir: string
}

/** The project and key of a request. */
export interface Caller {
  readonly key: { readonly id: string; readonly name: string; readonly last_used_at: Date | null }
  readonly scope: Scope
  readonly project_id: string
  readonly project_name: string
  readonly plan: PlanName
  readonly suspended: boolean
  /** What the operator gave as the reason; null without one. */
  readonly suspended_reason: string | null
}

/** The context of one call; its `db` is limited to the caller's share of the connections. */
export interface Context extends Deps {
  readonly caller: Caller
  /** Aborted when the client has left, or the server is about to close. Made only for calls that wait. */
  readonly leaving: () => AbortSignal
}
