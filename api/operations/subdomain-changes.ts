import { z } from 'zod'
import { conflict, notFound, tooManyRequests } from '../../core/errors.ts'
import { maxCancelledChanges } from '../../core/limits.ts'
import { readable, subdomainChangeLetter } from '../../core/mails.ts'
import { siteUrl } from '../../infra/config.ts'
import { databaseTime, type Tx } from '../../infra/db/database.ts'
import { lockProject } from '../../services/projects/projects.ts'
import { lockSite } from '../../services/sites/sites.ts'
import {
  cancelSubdomainChange,
  findLastChange,
  insertSubdomainChange,
  listCancelledChanges,
  type SubdomainChangeRow,
} from '../../services/sites/subdomain-changes.ts'
import { holdSubdomain } from '../../services/sites/subdomains.ts'
import { insertWorkflowSignals, insertWorkflowStart } from '../../services/workflow-messages.ts'
import { cancelledSignal, subdomainChangeStart } from '../../workflows/contract/names.ts'
import { queueMailToOwner } from '../../workflows/mails.ts'
import { inTrash } from '../accept-deploy.ts'
import type { Context } from '../context.ts'
import { checkHeldSubdomains, secondsUntil } from '../gates.ts'
import { suspended } from '../invoke.ts'
import { operation } from '../operation.ts'
import { readSubdomain, requirePlanFor, subdomainField, taken } from '../subdomains.ts'
import { isoTime, site_id, time } from '../views/fields.ts'
import { noSuchSite, siteOfCaller } from '../views/site.ts'

const tag = 'Sites'

const SubdomainChange = z
  .object({
    site_id: z.uuid(),
    subdomain: z.string().describe('Where the site is served now.'),
    pending_subdomain: z
      .string()
      .nullable()
      .describe('Where it will be served; null when no change is pending, as are the times.'),
    requested_at: time.nullable(),
    switch_at: time.nullable(),
  })
  .meta({ id: 'SubdomainChange' })

export const change_site_subdomain = operation({
  id: 'change_site_subdomain',
  title: 'Change the subdomain',
  summary:
    'Reserves another subdomain for a site, which has it from switch_at on; the old address then redirects for 30 days. Once in 7 days. The owner of the project is mailed.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/subdomain-change',
  tool: { confirm: true },
  scope: 'full',
  input: z.object({ site_id, subdomain: subdomainField }),
  example: { subdomain: 'river-notes' },
  load: siteOfCaller,
  output: SubdomainChange,
  errors: [400, 402, 409, 429],
  handler: async (ctx, { site_id, ...input }) => {
    const wanted = readSubdomain(input.subdomain)
    const change = await ctx.db.transaction().execute(async (tx) => {
      const now = ctx.clock()
      const project = await lockProject(tx, ctx.caller.project_id)
      const site = await lockSite(tx, project.id, site_id)
      if (!site) throw noSuchSite()
      if (site.deletion_scheduled_at) throw inTrash()
      if (site.subdomain === wanted) throw conflict(`the site has the subdomain ${wanted} already; choose another`)
      requirePause(ctx, await findLastChange(tx, site_id), now)
      await requireFewCancelled(tx, ctx, site_id, now)
      if (!(await holdSubdomain(tx, wanted, { site_id, project_id: project.id }, 'pending', now))) throw taken(wanted)
      requirePlanFor(wanted, project.plan)
      if (project.suspended) throw suspended()
      await checkHeldSubdomains(tx, ctx, project, wanted)
      const requested_at = await databaseTime(tx)
      const switch_at = new Date(requested_at.getTime() + ctx.config.names.switchDelayMs)
      const names = { old_subdomain: site.subdomain, new_subdomain: wanted }
      const row = await insertSubdomainChange(tx, { site_id, ...names, requested_at, switch_at })
      await announce(tx, ctx, { ...row, site_name: site.name, project_id: project.id })
      return row
    })
    ctx.relay.wake()
    const { id: change_id, old_subdomain, new_subdomain, requested_at, switch_at } = change
    ctx.log.info({ site_id, change_id, old_subdomain, new_subdomain, switch_at }, 'subdomain change requested')
    return {
      site_id,
      subdomain: old_subdomain,
      pending_subdomain: new_subdomain,
      requested_at: isoTime(requested_at),
      switch_at: isoTime(switch_at),
    }
  },
})

export const cancel_site_subdomain_change = operation({
  id: 'cancel_site_subdomain_change',
  title: 'Cancel the change of the subdomain',
  summary: 'Keeps the address that a site has, and frees the name that was reserved for it; before switch_at.',
  tag,
  rest: 'DELETE /api/v1/sites/{site_id}/subdomain-change',
  tool: {},
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: SubdomainChange,
  errors: [409],
  handler: async (ctx, { site_id }) => {
    const { subdomain, change_id } = await ctx.db.transaction().execute(async (tx) => {
      const site = await lockSite(tx, ctx.caller.project_id, site_id)
      if (!site) throw noSuchSite()
      if (site.deletion_scheduled_at) throw inTrash()
      const change = await cancelSubdomainChange(tx, site_id, ctx.clock())
      if (!change) throw notFound(`no change of the subdomain is pending; the site is at ${siteUrl(ctx.config, site.subdomain)}`)
      await insertWorkflowSignals(tx, [cancelledSignal({ site_id, change_id: change.id })])
      return { subdomain: site.subdomain, change_id: change.id }
    })
    ctx.relay.wake()
    ctx.log.info({ site_id, change_id }, 'subdomain change cancelled')
    return { site_id, subdomain, pending_subdomain: null, requested_at: null, switch_at: null }
  },
})

/** @throws AppError `conflict` while a change is pending, and for a while after one that was not cancelled */
function requirePause(ctx: Context, last: SubdomainChangeRow | undefined, now: Date): void {
  if (!last) return
  if (!last.switched_at) {
    throw conflict(
      `a change to ${last.new_subdomain} at ${readable(last.switch_at)} is pending; cancel_site_subdomain_change ends it`,
    )
  }
  const next = new Date(last.requested_at.getTime() + ctx.config.names.changeIntervalMs)
  if (now < next) throw conflict(`the subdomain was changed not long ago; another change is possible from ${readable(next)} on`)
}

/** @throws AppError `too_many_requests` when the latest changes were cancelled one after another */
async function requireFewCancelled(tx: Tx, ctx: Context, siteId: string, now: Date): Promise<void> {
  const { changeIntervalMs } = ctx.config.names
  const cancelled = await listCancelledChanges(tx, siteId, new Date(now.getTime() - changeIntervalMs), maxCancelledChanges)
  const oldest = cancelled[maxCancelledChanges - 1]?.cancelled_at
  if (!oldest) return
  const next = new Date(oldest.getTime() + changeIntervalMs)
  throw tooManyRequests(
    `${maxCancelledChanges} changes of the subdomain were cancelled not long ago; another change is possible from ${readable(next)} on`,
    secondsUntil(next, now),
  )
}

type AcceptedChange = SubdomainChangeRow & { readonly site_name: string; readonly project_id: string }

/** Tells the owner, and starts the wait for the switch. */
async function announce(tx: Tx, { config }: Context, { id, ...change }: AcceptedChange): Promise<void> {
  const letter = subdomainChangeLetter({
    site_id: change.site_id,
    site_name: change.site_name,
    old_url: siteUrl(config, change.old_subdomain),
    new_url: siteUrl(config, change.new_subdomain),
    switch_at: change.switch_at,
  })
  await queueMailToOwner(tx, change.project_id, letter, { sender: config.mail.from, now: change.requested_at })
  await insertWorkflowStart(tx, subdomainChangeStart({ ...change, change_id: id }))
}
