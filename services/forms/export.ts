import { sql } from 'kysely'
import { csvLine } from '../../core/csv.ts'
import { fieldText } from '../../core/forms.ts'
import { maxCsvFields } from '../../core/limits.ts'
import type { Db } from '../../infra/db/database.ts'
import { isFound, isHidden, isLookedThrough, type SubmissionFilter, type SubmissionRow, shownColumns } from './inbox.ts'

export const exportFormats = ['csv', 'jsonl'] as const
export type ExportFormat = (typeof exportFormats)[number]

/** Submissions of at most 50 KB each in memory at once. */
const rowsAtOnce = 50
const namesAtOnce = 2000

/** The lines of an export, newest first, as they are read from PostgreSQL. Hidden submissions are left out. */
export async function* exportSubmissions(db: Db, filter: SubmissionFilter, format: ExportFormat): AsyncGenerator<string> {
  if (format === 'jsonl') {
    for await (const rows of pages(db, filter)) yield rows.map(jsonLine).join('')
    return
  }
  const fields = await fieldNames(db, filter)
  const hasMore = fields.length > maxCsvFields
  const columns = fields.slice(0, maxCsvFields)
  yield csvLine(['id', 'created_at', 'status', ...columns, ...(hasMore ? ['other fields'] : [])])
  for await (const rows of pages(db, filter)) yield rows.map((row) => csvRow(row, columns, hasMore)).join('')
}

const jsonLine = ({ id, site_id, status, created_at, data }: SubmissionRow) =>
  `${JSON.stringify({ id, site_id, status, created_at: created_at.toISOString(), data })}\n`

function csvRow({ id, status, created_at, data }: SubmissionRow, columns: readonly string[], hasMore: boolean): string {
  const known = new Set(columns)
  const others = hasMore ? Object.fromEntries(Object.entries(data).filter(([name]) => !known.has(name))) : {}
  const cells = columns.map((name) => (Object.hasOwn(data, name) ? fieldText(data[name] ?? null) : ''))
  return csvLine([id, created_at.toISOString(), status, ...cells, ...(hasMore ? [JSON.stringify(others)] : [])])
}

/** Pages of a bounded number of looked-through submissions, so that a search that finds little takes no long query either. */
async function* pages(db: Db, filter: SubmissionFilter): AsyncGenerator<SubmissionRow[]> {
  let last: string | undefined
  for (;;) {
    const rows = await readPage(db, filter, last)
    yield rows.filter(({ hidden, found }) => found && !hidden)
    last = rows.at(-1)?.id
    if (rows.length < rowsAtOnce) return
  }
}

async function readPage(db: Db, filter: SubmissionFilter, last: string | undefined) {
  const { rows } = await sql<SubmissionRow & { readonly found: boolean }>`
    select ${shownColumns}, ${isFound(filter)} as found from form_submissions s
    where ${isLookedThrough(filter)} ${after(last)} order by s.id desc limit ${rowsAtOnce}`.execute(db)
  return rows
}

/** One name more than there may be columns tells that there are others. */
async function fieldNames(db: Db, filter: SubmissionFilter): Promise<string[]> {
  const names = new Set<string>()
  let last: string | undefined
  for (;;) {
    const page = await readNames(db, filter, last)
    for (const name of page?.names ?? []) names.add(name)
    if (names.size > maxCsvFields || !page || page.looked < namesAtOnce) return [...names]
    last = page.last
  }
}

interface NamesPage {
  readonly names: readonly string[]
  readonly last: string
  /** How many submissions were looked through. */
  readonly looked: number
}

async function readNames(db: Db, filter: SubmissionFilter, last: string | undefined): Promise<NamesPage | undefined> {
  const { rows } = await sql<NamesPage>`
    with looked as materialized (
      select s.id, s.data, ${isFound(filter)} and not ${isHidden} as found from form_submissions s
      where ${isLookedThrough(filter)} ${after(last)} order by s.id desc limit ${namesAtOnce})
    select
      array(
        select key from looked, lateral jsonb_object_keys(data) key where found
        group by key order by max(id::text) desc, key limit ${maxCsvFields + 1}) as names,
      (select min(id::text) from looked) as last, (select count(*) from looked) as looked`.execute(db)
  return rows[0]
}

const after = (last: string | undefined) => (last === undefined ? sql`` : sql`and s.id < ${last}`)
