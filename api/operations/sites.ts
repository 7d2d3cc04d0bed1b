import { z } from 'zod'
import { invalid } from '../../core/errors.ts'
import { maxPathBytes } from '../../core/limits.ts'
import { parseRootDir } from '../../core/root-dir.ts'
import { findRecommendations } from '../../services/deploys/deploys.ts'
import { suspended } from '../../services/projects/projects.ts'
import { createSite } from '../../services/sites/create-site.ts'
import { listSites, setSiteEnabled, updateSite } from '../../services/sites/sites.ts'
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
  handler: async (ctx) => (await listSites(ctx.db, ctx.caller.project_id)).map((row) => siteView(ctx.config, row)),
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
  summary: 'Renames a site; when given, also sets its description, its checks or the folder that is built.',
  tag,
  rest: 'PATCH /api/v1/sites/{site_id}',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({
    site_id,
    name,
    description: description.nullable().optional(),
    checks_enabled: z.boolean().optional(),
    root_dir: z
      .string()
      .meta({ maxLength: maxPathBytes })
      .nullable()
      .optional()
      .describe('The folder of this site when one repository has several sites, such as apps/web; null or empty means the root.'),
  }),
  example: { name: 'Field notes', description: 'What grows along the river.' },
  load: siteOfCaller,
  output: Site,
  errors: [400, 409],
  handler: async (ctx, input, site) => {
    const { site_id: _, ...given } = input
    requireVisible(given.name)
    const change = { ...given, root_dir: rootDir(given.root_dir) }
    return siteView(ctx.config, await updateSite(ctx, site, change))
  },
})

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
    if (enabled && ctx.caller.suspended) throw suspended()
    return siteView(ctx.config, await setSiteEnabled(ctx, site, enabled))
  },
})

function rootDir(given: string | null | undefined): string | null | undefined {
  if (given === undefined) return undefined
  const parsed = parseRootDir(given ?? '')
  if (!parsed.ok) throw invalid(`root_dir ${parsed.reason}; name a folder of the source, such as apps/web`)
  return parsed.rootDir
}
