import { z } from 'zod'
import { accessModes } from '../../core/access.ts'
import { type Config, siteUrl } from '../../infra/config.ts'
import { findSite, noSuchSite, type SiteRow } from '../../services/sites/sites.ts'
import type { Context } from '../context.ts'
import { isoTime, isoTimeOrNull, time } from './fields.ts'
import { recommendations } from './recommendation.ts'

export const Site = z
  .object({
    id: z.uuid(),
    name: z.string(),
    description: z.string().nullable(),
    subdomain: z.string(),
    url: z.url().describe('The address of the site.'),
    form_endpoint: z.url().describe('The URL to which forms of the site are posted.'),
    enabled: z.boolean().describe('A disabled site answers with a temporarily-unavailable page.'),
    checks_enabled: z.boolean().describe('Whether published files are checked for recommendations.'),
    permanent_links: z
      .boolean()
      .describe('Whether every deploy whose files are kept has an address of its own; the plan must allow it.'),
    canonical_urls: z
      .boolean()
      .describe('Whether each page has one address: /about.html redirects to /about, and /contact/ to /contact.'),
    asset_retention_days: z
      .int()
      .describe('How many days the hashed assets of superseded deploys go on answering at their paths.'),
    install_command: z.string().nullable().describe('The command that installs packages; null means the usual one.'),
    build_command: z.string().nullable().describe('The command that builds; null means the usual one.'),
    output_dir: z.string().nullable().describe('The folder that is published; null means the first of the usual ones.'),
    root_dir: z.string().nullable().describe('The folder of the source that is built and published; null means its root.'),
    node_version: z.string().nullable().describe('The version of Node; null means the one that the source asks for.'),
    deletion_scheduled_at: time.nullable().describe('When the site is removed for good; null unless it is in the trash.'),
    active_deploy_id: z.uuid().nullable().describe('The deploy that visitors see.'),
    pending_subdomain: z
      .object({ subdomain: z.string(), switch_at: time })
      .nullable()
      .describe('The next subdomain and when the site moves there; null when no change is pending.'),
    access_mode: z.enum(accessModes).nullable().describe('What closes the site; null while it is open to everybody.'),
    previews_closed: z.boolean().describe('Whether preview links of the site answer 404 while it is closed.'),
    created_at: time,
    updated_at: time,
    recommendations: recommendations.describe(
      'Only in get_site: the recommendations for the live files; absent when checks are off or found nothing.',
    ),
  })
  .meta({ id: 'Site' })

export function siteView(config: Config, row: SiteRow): z.input<typeof Site> {
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    subdomain: row.subdomain,
    url: siteUrl(config, row.subdomain),
    form_endpoint: `${config.urls.base}/f/${row.id}`,
    enabled: row.enabled,
    checks_enabled: row.checks_enabled,
    permanent_links: row.permanent_links,
    canonical_urls: row.canonical_urls,
    asset_retention_days: row.asset_retention_days,
    install_command: row.install_command,
    build_command: row.build_command,
    output_dir: row.output_dir,
    root_dir: row.root_dir,
    node_version: row.node_version,
    deletion_scheduled_at: isoTimeOrNull(row.deletion_scheduled_at),
    active_deploy_id: row.active_deploy_id,
    pending_subdomain: pendingView(row),
    access_mode: row.access_mode,
    previews_closed: row.previews_closed,
    created_at: isoTime(row.created_at),
    updated_at: isoTime(row.updated_at),
  }
}

function pendingView({ pending_subdomain: subdomain, pending_switch_at }: SiteRow): z.input<typeof Site>['pending_subdomain'] {
  return subdomain === null || pending_switch_at === null ? null : { subdomain, switch_at: isoTime(pending_switch_at) }
}

/** @throws AppError `not_found` */
export async function siteOfCaller(ctx: Context, { site_id }: { site_id: string }): Promise<SiteRow> {
  const site = await findSite(ctx.db, ctx.caller.project_id, site_id)
  if (!site) throw noSuchSite()
  return site
}
