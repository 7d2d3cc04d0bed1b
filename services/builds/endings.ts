import { isCommitId } from '../../core/git-remotes.ts'
import type { BuildOutcomeName, BuildResult } from '../../workflows/contract/builds.ts'
import { recordFailure } from '../deploys/announcements.ts'
import type { DeployRow } from '../deploys/deploys.ts'
import { addBuildMinutes, addBuildTotal } from '../projects/usage.ts'
import { insertGitReport, queueReports } from '../reports/reports.ts'
import type { Services } from '../services.ts'
import { releaseObjects } from '../storage/released-objects.ts'
import type { Tx } from '../transact.ts'
import { grantFreePermits } from './permits.ts'

// What follows from the end of a build, in the transaction that ends it.

/** Releases the objects that are not needed after a build: its source, unless the deploy keeps it, and its files when they are refused. */
export async function releaseSource(
  tx: Tx,
  changed: Pick<DeployRow, 'source_sha256'>,
  before: Pick<DeployRow, 'source_sha256'> | undefined,
  refused: readonly string[],
  now: Date,
): Promise<void> {
  const source = changed.source_sha256 === null ? before?.source_sha256 : undefined
  const hashes = [...refused, ...(source ? [source] : [])]
  await releaseObjects(tx, hashes, { now, published: false })
}

/** Reports the result of a git deploy to its forge. */
export async function reportEnd(tx: Tx, { source_kind, site_id }: DeployRow): Promise<void> {
  if (source_kind === 'git') await queueReports(tx, site_id)
}

/** A build that never began has no duration and is not counted. */
export async function addTotal(tx: Tx, { started_at, finished_at }: DeployRow, outcome: BuildOutcomeName): Promise<void> {
  if (started_at && finished_at) await addBuildTotal(tx, outcome, Math.max(0, finished_at.getTime() - started_at.getTime()))
}

/** Charges the wall time of a build in whole minutes; publishing without commands is free. */
export async function meter(tx: Tx, projectId: string, result: BuildResult, now: Date): Promise<void> {
  if (result.build_mode !== 'build' || result.build_seconds <= 0) return
  await addBuildMinutes(tx, projectId, now, Math.ceil(result.build_seconds / 60))
}

/**
 * Settles a deploy that has just failed without a result of its build: its permit goes to the next build, and its forge,
 * its owner and webhooks are notified.
 * @param before the deploy as it was
 */
export async function settleFailure(
  tx: Tx,
  services: Services,
  changed: DeployRow,
  {
    before,
    outcome,
    now,
  }: { readonly before: Parameters<typeof releaseSource>[2]; readonly outcome: BuildOutcomeName; readonly now: Date },
): Promise<void> {
  await releaseSource(tx, changed, before, [], now)
  await addTotal(tx, changed, outcome)
  await grantFreePermits(tx, services, { project_id: changed.project_id, now })
  // of a commit that was not fetched, only the push is known
  if (changed.git && isCommitId(changed.git.commit)) {
    await insertGitReport(tx, { deploy_id: changed.id, site_id: changed.site_id })
  }
  await reportEnd(tx, changed)
  await recordFailure(tx, services, changed, now)
}
