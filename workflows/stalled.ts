import type { Db } from '../infra/db/database.ts'
import type { Services } from '../services/services.ts'
import { transact } from '../services/transact.ts'
import { signalWorkflows, startWorkflow } from '../services/workflow-messages.ts'
import type { RegisteredSignal, RegisteredStart } from './contract/workflows.ts'

export interface StalledOptions {
  /** Rows that changed more recently are left alone. */
  readonly stalledAfterMs: number
  /** Rows that are due within this time should have a workflow by now. */
  readonly dueWithinMs: number
  /** The pause between two look-ups of a domain. */
  readonly checkIntervalMs: number
  /** The pause before the second try of a certificate's order. */
  readonly retryPauseMs: number
}

/** One search for stalled work. */
export interface StalledSearch extends Pick<StalledOptions, 'checkIntervalMs' | 'retryPauseMs'> {
  readonly services: Services
  readonly now: Date
  /** Rows that changed later are left alone. */
  readonly movedBefore: Date
  /** Rows that are due earlier should have a workflow by now. */
  readonly dueBefore: Date
  /** Rows of one batch. */
  readonly limit: number
}

/** Work of a row, with the workflow that should be doing it. */
export interface StalledWork {
  readonly workflow_id: string
  /** Writes the start of the workflow, or the signal with a start, when it is not running. False when the row no longer needs it. */
  restart(search: StalledSearch): Promise<boolean>
}

/** Finds the rows whose workflow should be running, in batches. */
export type FindStalled = (search: StalledSearch) => AsyncIterable<readonly StalledWork[]>

const batchSize = 200

export function stalledSearch(services: Services, now: Date, options: StalledOptions): StalledSearch {
  const movedBefore = new Date(now.getTime() - options.stalledAfterMs)
  const dueBefore = new Date(now.getTime() + options.dueWithinMs)
  return { ...options, services, now, movedBefore, dueBefore, limit: batchSize }
}

/** Restarts the same occurrence, because its workflow checks the row first. */
export const sameOccurrence = (message: RegisteredStart | RegisteredSignal): StalledWork => ({
  workflow_id: message.workflow_id,
  async restart({ services }) {
    await transact(services, (tx) => ('signal' in message ? signalWorkflows(tx, [message]) : startWorkflow(tx, message)))
    return true
  },
})

/** Finds one batch of rows; the next search finds the rest. */
export const firstBatch = <Row>(
  list: (search: StalledSearch) => Promise<readonly Row[]>,
  work: (row: Row, search: StalledSearch) => StalledWork,
): FindStalled =>
  async function* (search) {
    yield (await list(search)).map((row) => work(row, search))
  }

interface Page<Row> {
  readonly rows: readonly Row[]
  /** Where the next page begins; undefined after the last one. */
  readonly next: string | undefined
}

/** Finds all rows, page by page. */
export const allPages = <Row>(
  list: (search: StalledSearch, after: string | undefined) => Promise<Page<Row>>,
  work: (row: Row) => StalledWork,
): FindStalled =>
  async function* (search) {
    for (let after: string | undefined; ; ) {
      const { rows, next } = await list(search, after)
      yield rows.map(work)
      if (next === undefined) return
      after = next
    }
  }

/** Finds all rows of a list that is sorted by an id. */
export const allById = <Row>(
  list: (
    db: Db,
    movedBefore: Date,
    page: { readonly limit: number; readonly afterId: string | undefined },
  ) => Promise<readonly Row[]>,
  idOf: (row: Row) => string,
  work: (row: Row) => StalledWork,
): FindStalled =>
  allPages(async ({ services, movedBefore, limit }, afterId) => {
    const rows = await list(services.db, movedBefore, { limit, afterId })
    const last = rows.at(-1)
    return { rows, next: last && rows.length >= limit ? idOf(last) : undefined }
  }, work)
