import type { GitSource } from '../../core/deploy.ts'
import { notFound } from '../../core/errors.ts'
import {
  decidePush,
  type KnownRef,
  type PushDecision,
  type PushRules,
  previewRef,
  type SkipReason,
} from '../../core/git-decision.ts'
import type { Delivery, Forge, GitEvent, PullRequest, Push } from '../../core/git-events.ts'
import { planAllows } from '../../core/plans.ts'
import type { Db } from '../../infra/db/database.ts'
import { closeBranchPreview, findBranchPreview, openBranchPreview } from '../previews/branch-previews.ts'
import { withProject } from '../projects/projects.ts'
import { queueReports } from '../reports/reports.ts'
import type { Services } from '../services.ts'
import { lockSite } from '../sites/sites.ts'
import type { Tx } from '../transact.ts'
import { acceptGitDeploy } from './accept.ts'
import { claimDelivery, type HookedConnection } from './connections.ts'
import { newestGitDeploy } from './deploys.ts'

/** The result of one event of a delivery. */
export type Taken =
  | { readonly kind: 'deployed'; readonly deploy_id: string; readonly merged: boolean }
  | { readonly kind: 'skipped'; readonly reason: SkipReason }

/** One event of a delivery, with its connection. */
interface Arrived {
  readonly connection: HookedConnection
  readonly forge: Forge
  readonly event: GitEvent
  /** The forge's id of this part of the delivery; undefined when it has none. */
  readonly delivery_id: string | undefined
}

export const noHookedSite = () =>
  notFound('no repository is connected here; the connection of the site shows the address of its webhook')

export const siteOf = ({ site_id, project_id, site_name }: HookedConnection) => ({ id: site_id, project_id, name: site_name })

/**
 * Handles a delivery once: each of its events in a transaction of its own that also records the id of the delivery, so that a refused event
 * may be delivered again.
 * @param delivery a delivery with a valid signature; undefined when its headers belong to no known forge
 * @throws AppError from the gates of deploys
 */
export async function takeEvents(
  services: Services,
  connection: HookedConnection,
  delivery: Delivery | undefined,
  deliveryId: string | undefined,
): Promise<Taken[]> {
  const taken: Taken[] = []
  for (const [index, event] of (delivery?.events ?? []).entries()) {
    const delivery_id = deliveryId && (index === 0 ? deliveryId : `${deliveryId} ${index + 1}`)
    taken.push(await takeEvent(services, { connection, forge: delivery?.forge ?? 'generic', event, delivery_id }))
  }
  return taken
}

async function takeEvent(services: Services, arrived: Arrived): Promise<Taken> {
  const decision = await decide(services.db, arrived)
  try {
    return decision.kind === 'skipped' ? await skip(services, arrived, decision) : await deploy(services, arrived, decision)
  } catch (error) {
    if (error instanceof Overtaken) return { kind: 'skipped', reason: error.reason }
    throw error
  }
}

/** Another delivery has done the same in the meantime, or this one was handled before. */
class Overtaken extends Error {
  readonly reason: SkipReason

  constructor(reason: SkipReason) {
    super(reason)
    this.reason = reason
  }
}

/**
 * Takes the site's lock, under that of its project, and records the delivery in the transaction of its effects.
 * @throws Overtaken; AppError `not_found` when the site was trashed in the meantime
 */
async function claim(tx: Tx, { clock }: Services, { connection, delivery_id }: Arrived): Promise<void> {
  const { site_id, project_id } = connection
  const site = await lockSite(tx, project_id, site_id)
  if (!site || site.deletion_scheduled_at) throw noHookedSite()
  if (delivery_id === undefined) return
  if (!(await claimDelivery(tx, { site_id, delivery_id }, clock()))) throw new Overtaken('duplicate')
}

function rulesOf({ plan, branch, branch_previews, pull_request_previews, watch_paths }: HookedConnection): PushRules {
  const allowed = planAllows(plan, 'previews')
  return {
    branch,
    branch_previews: allowed && branch_previews,
    pull_request_previews: allowed && pull_request_previews,
    watch_paths,
  }
}

async function decide(db: Db, { connection, forge, event }: Arrived): Promise<PushDecision> {
  const known = event.kind === 'push' || event.kind === 'pull_request' ? await knownOf(db, connection, event) : {}
  return decidePush(forge, event, rulesOf(connection), known)
}

async function knownOf(db: Db, { site_id, branch }: HookedConnection, event: Push | PullRequest): Promise<KnownRef> {
  const ref = previewRef(event, branch)
  if (ref === branch) return { commit: (await newestGitDeploy(db, site_id, null))?.git?.commit }
  const preview = await findBranchPreview(db, site_id, ref)
  if (!preview) return {}
  // a closed preview has no link, so it is built again
  const newest = preview.closed_at ? undefined : await newestGitDeploy(db, site_id, preview.id)
  return { commit: newest?.git?.commit, fork_approved: preview.approved }
}

type Build = Exclude<PushDecision, { kind: 'skipped' }>

async function deploy(services: Services, arrived: Arrived, decision: Build): Promise<Taken> {
  const { connection, event, delivery_id } = arrived
  const accepted = await acceptGitDeploy(services, siteOf(connection), {
    git: sourceOf(event, decision),
    delivery: delivery_id,
    before: async (tx) => {
      await claim(tx, services, arrived)
      const again = await decide(tx, arrived)
      if (again.kind === 'skipped') throw new Overtaken(again.reason)
      return decision.kind === 'preview' ? await openPreview(tx, services, arrived, decision) : undefined
    },
  })
  return { kind: 'deployed', deploy_id: accepted.deploy.id, merged: accepted.merged }
}

/** What the event says about the commit; a pull request has its title. */
function sourceOf(event: GitEvent, { ref, commit }: Build): GitSource | null {
  if (commit === undefined || (event.kind !== 'push' && event.kind !== 'pull_request')) return null
  const message = event.message ?? (event.kind === 'pull_request' ? event.title : undefined)
  return { commit, ref, message: message ?? '', author: event.author ?? '' }
}

type Preview = Extract<PushDecision, { kind: 'preview' }>

async function openPreview(tx: Tx, { clock }: Services, { connection, event }: Arrived, decision: Preview) {
  const { site_id, project_id } = connection
  const { ref, fetch_ref, commit, pull_request } = decision
  const isRequest = event.kind === 'pull_request'
  const seen = { pull_request: pull_request ?? null, from_fork: isRequest && event.from_fork, head_commit: commit ?? null }
  const branch = isRequest ? event.ref : ref
  const preview = await openBranchPreview(tx, { site_id, project_id, ref, fetch_ref, branch, ...seen }, clock())
  await queueReports(tx, site_id)
  return preview
}

/** Only the build is skipped: a preview may still end, or be shown to the owner and reported to the forge. */
async function skip(
  services: Services,
  arrived: Arrived,
  { reason, ends }: Extract<PushDecision, { kind: 'skipped' }>,
): Promise<Taken> {
  const { connection } = arrived
  const shown = reason === 'fork' || reason === 'duplicate' ? requestToShow(arrived) : undefined
  if (shown || ends !== undefined) {
    await withProject(services, connection.project_id, async (tx) => {
      await claim(tx, services, arrived)
      if (shown) await openPreview(tx, services, arrived, shown)
      if (ends !== undefined) await closePreview(tx, services, arrived, ends)
    })
  }
  services.log.info({ site_id: connection.site_id, delivery: arrived.delivery_id, reason }, 'push skipped')
  return { kind: 'skipped', reason }
}

async function closePreview(tx: Tx, { clock }: Services, { connection: { site_id } }: Arrived, ref: string): Promise<void> {
  const preview = await findBranchPreview(tx, site_id, ref)
  if (!preview || preview.closed_at) return
  await queueReports(tx, site_id)
  await closeBranchPreview(tx, { site_id, ref }, clock())
}

/** The build of a pull request that is approved but otherwise unknown; undefined when it can never be built. */
function requestToShow({ connection, forge, event }: Arrived): Preview | undefined {
  if (event.kind !== 'pull_request') return undefined
  const decision = decidePush(forge, event, rulesOf(connection), { fork_approved: true })
  return decision.kind === 'preview' ? decision : undefined
}
