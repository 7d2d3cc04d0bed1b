import type { Db, Tx } from '../infra/db/database.ts'
import { listStalledOrders, type StartedOrder } from '../services/certificates/certificates.ts'
import { listStalledDeploys, retryDeploy } from '../services/deploys/runs.ts'
import { listStalledDomains, retryDomain } from '../services/domains/connecting.ts'
import { listWaitingMails } from '../services/emails/emails.ts'
import { lockProject } from '../services/projects/projects.ts'
import { listDueTrash } from '../services/removal/sites.ts'
import { listSitesToReport } from '../services/reports/reports.ts'
import { listDueSubdomainChanges } from '../services/sites/subdomain-changes.ts'
import { orderStart } from './contract/certificates.ts'
import { domainStart, domainWorkflowId } from './contract/domains.ts'
import { reportsSignal } from './contract/git.ts'
import { mailStart } from './contract/mails.ts'
import { subdomainChangeStart, trashStart } from './contract/names.ts'
import { deployStart, deployWorkflowId, type WorkflowSignal, type WorkflowStart } from './contract.ts'

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
  /** What to start, or to signal with a start, when nobody works on it; undefined when the row does not want it any more. */
  startAgain(tx: Tx): Promise<WorkflowStart | WorkflowSignal | undefined>
}

const batchSize = 200

/** All work that should be under way, in batches. */
export async function* unfinishedWork(db: Db, now: Date, options: UnfinishedOptions): AsyncGenerator<Unfinished[]> {
  const stalled = new Date(now.getTime() - options.stalledAfterMs)
  const due = new Date(now.getTime() + options.dueWithinMs)
  yield* deploys(db, stalled)
  yield* domains(db, stalled, now, options.checkIntervalMs)
  yield (await listStalledOrders(db, stalled, batchSize)).map((order) => again(orderAgain(order, options.retryPauseMs)))
  yield (await listDueTrash(db, due, batchSize)).map((site) => again(trashStart(site)))
  yield (await listDueSubdomainChanges(db, due, batchSize)).map((change) => again(subdomainChangeStart(change)))
  yield* reports(db, now, stalled)
  yield (await listWaitingMails(db, stalled, batchSize)).map((mail) => again(mailStart({ ...mail, about: mail.subject })))
}

/** The same occurrence once more: its workflow looks at the row first. */
const again = (start: WorkflowStart | WorkflowSignal): Unfinished => ({
  workflow_id: start.workflow_id,
  startAgain: async () => start,
})

/** @param retry_pause_ms as it is set now */
function orderAgain({ project_id, site_id, ...order }: StartedOrder, retry_pause_ms: number): WorkflowStart {
  const owner = project_id !== null && site_id !== null ? { project_id, site_id } : null
  return orderStart({ ...order, retry_pause_ms }, owner)
}

async function* deploys(db: Db, before: Date): AsyncGenerator<Unfinished[]> {
  yield* pages(
    (afterId) => listStalledDeploys(db, before, { limit: batchSize, afterId }),
    (deploy) => deploy.deploy_id,
    (deploy) => ({
      workflow_id: deployWorkflowId(deploy),
      // the next attempt has no permit: it asks for one again
      async startAgain(tx) {
        await lockProject(tx, deploy.project_id)
        if (!(await retryDeploy(tx, deploy.deploy_id, deploy.attempt))) return undefined
        return deployStart({ ...deploy, attempt: deploy.attempt + 1 })
      },
    }),
  )
}

async function* domains(db: Db, before: Date, now: Date, check_interval_ms: number): AsyncGenerator<Unfinished[]> {
  yield* pages(
    (afterId) => listStalledDomains(db, before, batchSize, afterId),
    (domain) => domain.domain_id,
    (domain) => ({
      workflow_id: domainWorkflowId(domain),
      async startAgain(tx) {
        if (!(await retryDomain(tx, domain, now))) return undefined
        return domainStart({ ...domain, attempt: domain.attempt + 1, check_interval_ms })
      },
    }),
  )
}

async function* reports(db: Db, now: Date, before: Date): AsyncGenerator<Unfinished[]> {
  for (let afterId: string | undefined; ; ) {
    const { sites, lastId } = await listSitesToReport(db, { now, before, limit: batchSize, afterId })
    yield sites.map((site) => again(reportsSignal(site)))
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
