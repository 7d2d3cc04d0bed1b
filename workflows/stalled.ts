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
  /** Ends work that others wait for and that cannot go on: its start is dead, or its workflow has failed. False when it need not end. */
  giveUp?(search: StalledSearch): Promise<boolean>
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

interface Page<Row> {
  readonly rows: readonly Row[]
  /** Where the next page begins; undefined after the last one. */
  readonly next: string | undefined
}

/** Finds all rows, page by page. */
export const allPages = <Row>(
  list: (search: StalledSearch, after: string | undefined) => Promise<Page<Row>>,
  work: (row: Row, search: StalledSearch) => StalledWork,
): FindStalled =>
  async function* (search) {
    for (let after: string | undefined; ; ) {
      const { rows, next } = await list(search, after)
      yield rows.map((row) => work(row, search))
      if (next === undefined) return
      after = next
    }
  }

interface IdPage {
  readonly limit: number
  /** The id of the last row of the page before. */
  readonly afterId: string | undefined
}
type ListRows<Row> = (db: Db, before: Date, page: IdPage) => Promise<readonly Row[]>
type ListPage<Row> = (search: StalledSearch, page: IdPage) => Promise<readonly Row[]>

/** Lists the rows that have not changed lately. */
export const moved =
  <Row>(list: ListRows<Row>): ListPage<Row> =>
  ({ services, movedBefore }, page) =>
    list(services.db, movedBefore, page)

/** Lists the rows that are due soon. */
export const due =
  <Row>(list: ListRows<Row>): ListPage<Row> =>
  ({ services, dueBefore }, page) =>
    list(services.db, dueBefore, page)

/** Finds all rows of a list that is sorted by an id. */
export const allById = <Row>(
  list: ListPage<Row>,
  idOf: (row: Row) => string,
  work: (row: Row, search: StalledSearch) => StalledWork,
): FindStalled =>
  allPages(async (search, afterId) => {
    const rows = await list(search, { limit: search.limit, afterId })
    const last = rows.at(-1)
    return { rows, next: last && rows.length >= search.limit ? idOf(last) : undefined }
  }, work)
