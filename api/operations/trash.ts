import { z } from 'zod'
import { conflict } from '../../core/errors.ts'
import { databaseTime } from '../../infra/db/database.ts'
import { lockProject } from '../../services/projects/projects.ts'
import { lockSite } from '../../services/sites/sites.ts'
import { listTrashedSites, restoreSite, trashSite } from '../../services/sites/trash.ts'
import { insertWorkflowSignals, insertWorkflowStart } from '../../services/workflow-messages.ts'
import { cancelledSignal, restoredSignal, trashStart } from '../../workflows/contract/names.ts'
import { checkSiteQuota, checkStorage } from '../gates.ts'
import { suspended } from '../invoke.ts'
import { operation } from '../operation.ts'
import { site_id } from '../views/fields.ts'
import { noSuchSite, Site, siteOfCaller, siteView } from '../views/site.ts'

const tag = 'Sites'

export const delete_site = operation({
  id: 'delete_site',
  title: 'Delete a site',
  summary:
    'Puts a site into the trash: it is not served any more, and removed for good when deletion_scheduled_at comes. Until then restore_site brings it back.',
  tag,
  rest: 'DELETE /api/v1/sites/{site_id}',
  tool: { confirm: true },
  scope: 'full',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: Site,
  errors: [409],
  handler: async (ctx, { site_id }) => {
    const site = await ctx.db.transaction().execute(async (tx) => {
      const now = await databaseTime(tx)
      const purgeAt = new Date(now.getTime() + ctx.config.names.trashPeriodMs)
      const trashed = await trashSite(tx, ctx.caller.project_id, site_id, { now, purgeAt })
      if (!trashed) throw conflict('the site is in the trash already; restore_site brings it back')
      const { site, cancelled } = trashed
      const { name: site_name, project_id } = site
      await insertWorkflowStart(tx, trashStart({ site_id, site_name, project_id, purge_at: purgeAt }))
      if (cancelled) await insertWorkflowSignals(tx, [cancelledSignal({ site_id, change_id: cancelled.id })])
      return site
    })
    ctx.relay.wake()
    ctx.log.info({ site_id, purge_at: site.deletion_scheduled_at }, 'site trashed')
    return siteView(ctx.config, site)
  },
})

export const list_trashed = operation({
  id: 'list_trashed',
  title: 'List the trash',
  summary: 'The sites in the trash; each is removed for good at its deletion_scheduled_at.',
  tag,
  rest: 'GET /api/v1/trashed-sites',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({}),
  output: z.array(Site),
  handler: async (ctx) => (await listTrashedSites(ctx.db, ctx.caller.project_id)).map((row) => siteView(ctx.config, row)),
})

export const restore_site = operation({
  id: 'restore_site',
  title: 'Restore a site',
  summary: 'Takes a site out of the trash: it serves again what it served before.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/restore',
  tool: {},
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: Site,
  errors: [402, 409],
  handler: async (ctx, { site_id }) => {
    const site = await ctx.db.transaction().execute(async (tx) => {
      const project = await lockProject(tx, ctx.caller.project_id)
      const found = await lockSite(tx, project.id, site_id)
      if (!found) throw noSuchSite()
      const purge_at = found.deletion_scheduled_at
      if (!purge_at) throw conflict('the site is not in the trash: there is nothing to restore')
      if (found.purging) throw conflict('the site is being removed for good: its time in the trash is over')
      await checkSiteQuota(tx, ctx, project)
      await checkStorage(tx, ctx, project, { addedBytes: 0 })
      if (project.suspended) throw suspended()
      await insertWorkflowSignals(tx, [restoredSignal({ site_id, purge_at })])
      return await restoreSite(tx, project.id, site_id, ctx.clock())
    })
    if (!site) throw noSuchSite()
    ctx.relay.wake()
    ctx.log.info({ site_id }, 'site restored')
    return siteView(ctx.config, site)
  },
})
