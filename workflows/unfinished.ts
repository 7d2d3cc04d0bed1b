import { listStalledOrders, type StartedOrder } from '../services/certificates/certificates.ts'
import { restartDeploy } from '../services/deploys/restart.ts'
import { listStalledDeploys } from '../services/deploys/runs.ts'
import { restartDomain } from '../services/domains/connect.ts'
import { listStalledDomains } from '../services/domains/connecting.ts'
import { listWaitingMails } from '../services/emails/emails.ts'
import { listDueTrash } from '../services/removal/sites.ts'
import { listSitesToReport } from '../services/reports/due.ts'
import type { Services } from '../services/services.ts'
import { listDueSubdomainChanges } from '../services/sites/subdomain-changes.ts'
import { transact } from '../services/transact.ts'
import { signalWorkflows, startWorkflow } from '../services/workflow-messages.ts'
import { orderStart } from './contract/certificates.ts'
import { deployWorkflowId } from './contract/deploys.ts'
import { domainWorkflowId } from './contract/domains.ts'
import { mailStart } from './contract/emails.ts'
import type { WorkflowSignal, WorkflowStart } from './contract/messages.ts'
import { reportsSignal } from './contract/reports.ts'
import { subdomainChangeStart, trashStart } from './contract/sites.ts'

export interface UnfinishedOptions {
  /** What moved more recently is left alone. */
  readonly stalledAfterMs: number
  /** What is due so soon should have its workflow by now. */
  readonly dueWithinMs: number
  /** The pause between two looks at a domain. */
  readonly checkIntervalMs: number
  /** The pause before the second try of a certificate's order. */
  readonly retryPauseMs: number
}

/** Work that a row wants done, and the workflow that should be doing it. */
export interface Unfinished {
  readonly workflow_id: string
  /** Has the workflow started, or signalled with a start, when nobody works on it. False when the row does not want it any more. */
  restart(): Promise<boolean>
}

const batchSize = 200

/** All work that should be under way, in batches. */
export async function* unfinishedWork(services: Services, now: Date, options: UnfinishedOptions): AsyncGenerator<Unfinished[]> {
  const { db } = services
  const stalled = new Date(now.getTime() - options.stalledAfterMs)
  const due = new Date(now.getTime() + options.dueWithinMs)
  const again = (message: WorkflowStart | WorkflowSignal) => sameOccurrence(services, message)
  yield* deploys(services, stalled)
  yield* domains(services, stalled, now, options.checkIntervalMs)
  yield (await listStalledOrders(db, stalled, batchSize)).map((order) => again(orderAgain(order, options.retryPauseMs)))
  yield (await listDueTrash(db, due, batchSize)).map((site) => again(trashStart(site)))
  yield (await listDueSubdomainChanges(db, due, batchSize)).map((change) => again(subdomainChangeStart(change)))
  yield* reports(services, now, stalled)
  yield (await listWaitingMails(db, stalled, batchSize)).map((mail) => again(mailStart({ ...mail, about: mail.subject })))
}

/** The same occurrence once more: its workflow looks at the row first. */
const sameOccurrence = (services: Services, message: WorkflowStart | WorkflowSignal): Unfinished => ({
  workflow_id: message.workflow_id,
  async restart() {
    await transact(services, (tx) => ('signal' in message ? signalWorkflows(tx, [message]) : startWorkflow(tx, message)))
    return true
  },
})

/** @param retry_pause_ms as it is set now */
function orderAgain({ project_id, site_id, ...order }: StartedOrder, retry_pause_ms: number): WorkflowStart {
  const owner = project_id !== null && site_id !== null ? { project_id, site_id } : null
  return orderStart({ ...order, retry_pause_ms }, owner)
}

async function* deploys(services: Services, before: Date): AsyncGenerator<Unfinished[]> {
  yield* pages(
    (afterId) => listStalledDeploys(services.db, before, { limit: batchSize, afterId }),
    (deploy) => deploy.deploy_id,
    (deploy) => ({ workflow_id: deployWorkflowId(deploy), restart: () => restartDeploy(services, deploy) }),
  )
}

async function* domains(services: Services, before: Date, now: Date, check_interval_ms: number): AsyncGenerator<Unfinished[]> {
  yield* pages(
    (afterId) => listStalledDomains(services.db, before, batchSize, afterId),
    (domain) => domain.domain_id,
    (domain) => ({
      workflow_id: domainWorkflowId(domain),
      restart: () => restartDomain(services, { ...domain, check_interval_ms }, now),
    }),
  )
}

async function* reports(services: Services, now: Date, before: Date): AsyncGenerator<Unfinished[]> {
  for (let afterId: string | undefined; ; ) {
    const { sites, lastId } = await listSitesToReport(services.db, { now, before, limit: batchSize, afterId })
    yield sites.map((site) => sameOccurrence(services, reportsSignal(site)))
    if (lastId === undefined) return
    afterId = lastId
  }
}

async function* pages<Row>(
  read: (afterId: string | undefined) => Promise<Row[]>,
  idOf: (row: Row) => string,
  unfinished: (row: Row) => Unfinished,
): AsyncGenerator<Unfinished[]> {
  for (let afterId: string | undefined; ; ) {
    const rows = await read(afterId)
    yield rows.map(unfinished)
    const last = rows.at(-1)
    if (!last || rows.length < batchSize) return
    afterId = idOf(last)
  }
}
