import { z } from 'zod'
import { readTrashedSites, restoreSite, trashSite } from '../../services/sites/trash.ts'
import { Listing } from '../listing.ts'
import { operation } from '../operation.ts'
import { site_id } from '../views/fields.ts'
import { Site, siteOfCaller, siteView } from '../views/site.ts'

const tag = 'Sites'

export const delete_site = operation({
  id: 'delete_site',
  title: 'Delete a site',
  summary:
    'Moves a site to the trash: it is no longer served, and is removed for good at deletion_scheduled_at. Until then restore_site brings it back.',
  tag,
  rest: 'DELETE /api/v1/sites/{site_id}',
  tool: { confirm: true, undo: 'within 24 hours by restore_site, after which the site is removed for good' },
  scope: 'full',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: Site,
  errors: [409],
  handler: async (ctx, _input, site) => siteView(ctx.config, await trashSite(ctx, site)),
})

export const list_trashed = operation({
  id: 'list_trashed',
  title: 'List the trash',
  summary: 'Lists the sites in the trash. Each is removed for good at its deletion_scheduled_at.',
  tag,
  rest: 'GET /api/v1/trashed-sites',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({}),
  output: z.array(Site),
  lists: [{ key: 'id' }],
  handler: async ({ db, caller, config }) =>
    Listing.of(readTrashedSites(db, caller.project_id), (rows) => rows.map((row) => siteView(config, row))),
})

export const restore_site = operation({
  id: 'restore_site',
  title: 'Restore a site',
  summary: 'Takes a site out of the trash. It serves the same content as before.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/restore',
  tool: {},
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: Site,
  errors: [402, 409],
  handler: async (ctx, _input, site) => siteView(ctx.config, await restoreSite(ctx, site)),
})
