import { z } from 'zod'
import { maxAssetRetentionDays } from '../../core/limits.ts'
import { findRecommendations } from '../../services/deploys/deploys.ts'
import { suspended } from '../../services/projects/projects.ts'
import { createSite } from '../../services/sites/create-site.ts'
import { requirePlanForPermanentLinks } from '../../services/sites/quotas.ts'
import { readSites, setSiteEnabled, updateSite } from '../../services/sites/sites.ts'
import { readBuildSettings, siteBuildSettings } from '../build-settings.ts'
import type { Context } from '../context.ts'
import { Listing } from '../listing.ts'
import { operation } from '../operation.ts'
import { readSubdomain, subdomainField } from '../subdomains.ts'
import { description, name, requireVisible, site_id } from '../views/fields.ts'
import { Site, siteOfCaller, siteView } from '../views/site.ts'

const tag = 'Sites'

export const list_sites = operation({
  id: 'list_sites',
  title: 'List sites',
  summary: 'Lists all sites of the project that are not in the trash.',
  tag,
  rest: 'GET /api/v1/sites',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({}),
  output: z.array(Site),
  lists: [{ key: 'id' }],
  handler: async ({ db, caller, config }) =>
    Listing.of(readSites(db, caller.project_id), (rows) => rows.map((row) => siteView(config, row))),
})

export const create_site = operation({
  id: 'create_site',
  title: 'Create a site',
  summary: 'Creates an empty site at a subdomain of the platform. Deploy to it next.',
  tag,
  rest: 'POST /api/v1/sites',
  tool: {},
  scope: 'editor',
  input: z.object({ name, subdomain: subdomainField }),
  example: { name: 'Field notes', subdomain: 'field-notes' },
  output: Site,
  errors: [400, 402, 409],
  handler: async (ctx, input) => {
    requireVisible(input.name)
    const subdomain = readSubdomain(input.subdomain)
    const site = await createSite(ctx, { project_id: ctx.caller.project_id, name: input.name, subdomain })
    return siteView(ctx.config, site)
  },
})

export const get_site = operation({
  id: 'get_site',
  title: 'Get a site',
  summary: 'Gets a site with its address, its live deploy and the recommendations of the checks.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: Site,
  handler: async (ctx, _input, site) => {
    const live = site.active_deploy_id
    const recommendations = live ? await findRecommendations(ctx.db, site.project_id, live) : []
    return { ...siteView(ctx.config, site), ...(recommendations.length > 0 && { recommendations }) }
  },
})

export const update_site = operation({
  id: 'update_site',
  title: 'Update a site',
  summary:
    'Changes the given members of a site: its name, its description, its checks, its permanent links, its preview links while it is closed, the addresses of its pages, how long it retains assets and how its sources are built.',
  tag,
  rest: 'PATCH /api/v1/sites/{site_id}',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({
    site_id,
    name: name.optional(),
    description: description.nullable().optional(),
    checks_enabled: z.boolean().optional(),
    permanent_links: z
      .boolean()
      .optional()
      .describe('true gives every deploy whose files are kept an address of its own; false ends these addresses for good.'),
    canonical_urls: z.boolean().optional(),
    previews_closed: z
      .boolean()
      .optional()
      .describe('true makes the preview links of the site answer 404 while the site is closed.'),
    asset_retention_days: z
      .int()
      .min(0)
      .max(maxAssetRetentionDays)
      .optional()
      .describe('How many days the hashed assets of superseded deploys go on answering; 0 ends it at once.'),
    ...siteBuildSettings,
  }),
  example: { name: 'Field notes', description: 'What grows along the river.' },
  load: siteOfCaller,
  output: Site,
  errors: [400, 402, 409],
  handler: async (ctx, input, site) => {
    const { site_id: _, ...given } = input
    if (given.permanent_links) requirePermanentLinks(ctx.caller)
    if (given.name !== undefined) requireVisible(given.name)
    const change = { ...given, ...readBuildSettings(given) }
    return siteView(ctx.config, await updateSite(ctx, site, change))
  },
})

function requirePermanentLinks(caller: Context['caller']): void {
  if (caller.suspended) throw suspended(caller)
  requirePlanForPermanentLinks(caller.plan)
}

export const set_site_enabled = operation({
  id: 'set_site_enabled',
  title: 'Enable or disable a site',
  summary: 'Enables or disables a site. A disabled site answers visitors with a temporarily-unavailable page.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/enabled',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({ site_id, enabled: z.boolean() }),
  example: { enabled: true },
  load: siteOfCaller,
  output: Site,
  errors: [402, 409],
  handler: async (ctx, { enabled }, site) => {
    if (enabled && ctx.caller.suspended) throw suspended(ctx.caller)
    return siteView(ctx.config, await setSiteEnabled(ctx, site, enabled))
  },
})
