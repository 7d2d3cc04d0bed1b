import type { Tx } from '../infra/db/database.ts'
import { findReportingSite } from '../services/reports/reports.ts'
import { insertWorkflowSignals } from '../services/workflow-messages.ts'
import { reportsSignal } from './contract/git.ts'

/** Has the forge of a site told what is new, in the transaction of the change; wake the relay after the commit. */
export async function queueReports(tx: Tx, siteId: string): Promise<void> {
  const site = await findReportingSite(tx, siteId)
  if (site) await insertWorkflowSignals(tx, [reportsSignal(site)])
}
