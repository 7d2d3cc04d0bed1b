import { sql } from 'kysely'
import type { Forge } from '../../core/git-events.ts'
import type { Db } from '../../infra/db/database.ts'
import { forgeAddress } from '../../infra/forges/address.ts'
import { reportsSignal } from '../../workflows/contract/reports.ts'
import type { Tx } from '../transact.ts'
import { signalWorkflows } from '../workflow-messages.ts'

/** The facts for starting the workflow that reports for a site. */
export interface ReportingSite {
  readonly site_id: string
  readonly site_name: string
  readonly project_id: string
}

/** Connections with a token; their address shows whether their forge accepts reports. */
export const connections = (db: Db) =>
  db
    .selectFrom('git_connections')
    .innerJoin('sites', 'sites.id', 'git_connections.site_id')
    .select(['sites.id as site_id', 'sites.name as site_name', 'sites.project_id', 'repo_url', 'forge'])
    .where('token_sealed', 'is not', null)

export const takesReports = ({ repo_url, forge }: { readonly repo_url: string; readonly forge: Forge | null }) =>
  forgeAddress(repo_url, forge ?? undefined) !== undefined

/** Undefined when nothing can be reported: the site is not connected, has no token, or its forge accepts no reports. */
export async function findReportingSite(db: Db, siteId: string): Promise<ReportingSite | undefined> {
  const found = await connections(db).where('git_connections.site_id', '=', siteId).executeTakeFirst()
  return found && takesReports(found) ? found : undefined
}

/** Starts reporting changes of a site to its forge, in the transaction of the change. */
export async function queueReports(tx: Tx, siteId: string): Promise<void> {
  const site = await findReportingSite(tx, siteId)
  if (site) await signalWorkflows(tx, [reportsSignal(site)])
}

/** Reports the deploy to the forge from now on, if there is a token. May be repeated. */
export async function insertGitReport(tx: Tx, report: { readonly deploy_id: string; readonly site_id: string }): Promise<void> {
  const { deploy_id, site_id } = report
  await tx
    .insertInto('git_reports')
    .columns(['deploy_id', 'site_id'])
    .expression((eb) =>
      eb
        .selectFrom('git_connections')
        .select([sql<string>`${deploy_id}::uuid`.as('deploy_id'), 'site_id'])
        .where('site_id', '=', site_id)
        .where('token_sealed', 'is not', null),
    )
    .onConflict((conflict) => conflict.column('deploy_id').doNothing())
    .execute()
}

/** Records that the state of the deploy was reported, or never will be. */
export async function setReported(
  db: Db,
  deployId: string,
  sent: { readonly reported: string; readonly deployment_id?: string },
): Promise<void> {
  await db.updateTable('git_reports').set(sent).where('deploy_id', '=', deployId).execute()
}

/** Records that the comment of the pull request shows the state, or never will. The comment of an earlier pull request of the preview does not count. */
export async function setCommented(
  db: Db,
  { id, pull_request }: { readonly id: string; readonly pull_request: number },
  sent: { readonly commented: string; readonly comment_id?: string },
): Promise<void> {
  await db.updateTable('git_previews').set(sent).where('id', '=', id).where('pull_request', '=', pull_request).execute()
}
