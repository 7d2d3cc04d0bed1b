import { sql } from 'kysely'
import { csvLine } from '../../core/csv.ts'
import { fieldText } from '../../core/forms.ts'
import { maxCsvFields, maxCsvNameLength } from '../../core/limits.ts'
import { bytesOf, type RowSize } from '../../infra/db/batches.ts'
import type { Db } from '../../infra/db/database.ts'
import { after, isFound, isHidden, isLookedThrough, readSubmissions, type SubmissionFilter, type SubmissionRow } from './inbox.ts'

export const exportFormats = ['csv', 'jsonl'] as const
export type ExportFormat = (typeof exportFormats)[number]

/** Submissions that are looked through at once. */
const lookedAtOnce = 500
const namesAtOnce = 2000

/** The lines of an export, newest first, in batches as they are read from PostgreSQL. Hidden submissions are left out. */
export async function* exportSubmissions(db: Db, filter: SubmissionFilter, format: ExportFormat): AsyncGenerator<string[]> {
  if (format === 'jsonl') {
    for await (const rows of foundSubmissions(db, filter)) yield rows.map(jsonLine)
    return
  }
  const { names: columns, hasMore } = await fieldNames(db, filter)
  yield [csvLine(['id', 'created_at', 'status', ...columns, ...(hasMore ? ['other fields'] : [])])]
  for await (const rows of foundSubmissions(db, filter)) yield rows.map((row) => csvRow(row, columns, hasMore))
}

const jsonLine = ({ id, site_id, status, created_at, data }: SubmissionRow) =>
  `${JSON.stringify({ id, site_id, status, created_at: created_at.toISOString(), data })}\n`

function csvRow({ id, status, created_at, data }: SubmissionRow, columns: readonly string[], hasMore: boolean): string {
  const known = new Set(columns)
  const others = hasMore ? Object.fromEntries(Object.entries(data).filter(([name]) => !known.has(name))) : {}
  const cells = columns.map((name) => (Object.hasOwn(data, name) ? fieldText(data[name] ?? null) : ''))
  return csvLine([id, created_at.toISOString(), status, ...cells, ...(hasMore ? [JSON.stringify(others)] : [])])
}

/** Looks through a bounded number of submissions at once, so that a search that finds little takes no long query either. */
async function* foundSubmissions(db: Db, filter: SubmissionFilter): AsyncGenerator<SubmissionRow[]> {
  let last: string | undefined
  for (;;) {
    const rows = await lookThrough(db, filter, last)
    const found = rows.filter((row) => row.found)
    // a batch without lines gives the next project its turn
    if (found.length === 0) yield []
    yield* readSubmissions(db, found)
    last = rows.at(-1)?.id
    if (rows.length < lookedAtOnce) return
  }
}

async function lookThrough(db: Db, filter: SubmissionFilter, last: string | undefined) {
  const { rows } = await sql<RowSize & { readonly found: boolean }>`
    select s.id, ${bytesOf('s.data')} as bytes, ${isFound(filter)} and not ${isHidden} as found from form_submissions s
    where ${isLookedThrough(filter)} ${after(last)} order by s.id desc limit ${lookedAtOnce}`.execute(db)
  return rows
}

/** The names with a column of their own: the first ones, unless they are very long. Other fields share a column. */
async function fieldNames(
  db: Db,
  filter: SubmissionFilter,
): Promise<{ readonly names: readonly string[]; readonly hasMore: boolean }> {
  const names = new Set<string>()
  let last: string | undefined
  let hasLong = false
  for (;;) {
    const page = await readNames(db, filter, last)
    for (const name of page?.names ?? []) names.add(name)
    hasLong ||= page?.has_long ?? false
    const hasMany = names.size > maxCsvFields
    if (hasMany || !page || page.looked < namesAtOnce) {
      return { names: [...names].slice(0, maxCsvFields), hasMore: hasMany || hasLong }
    }
    last = page.last
  }
}

interface NamesPage {
  /** One name more than there may be columns tells that there are others. */
  readonly names: readonly string[]
  /** Whether a name is too long for a column. */
  readonly has_long: boolean
  readonly last: string
  /** How many submissions were looked through. */
  readonly looked: number
}

async function readNames(db: Db, filter: SubmissionFilter, last: string | undefined): Promise<NamesPage | undefined> {
  const { rows } = await sql<NamesPage>`
    with looked as materialized (
      select s.id, s.data, ${isFound(filter)} and not ${isHidden} as found from form_submissions s
      where ${isLookedThrough(filter)} ${after(last)} order by s.id desc limit ${namesAtOnce}),
    names as materialized (
      select key, max(id::text) as newest from looked, lateral jsonb_object_keys(data) key where found group by key)
    select
      array(
        select key from names where length(key) <= ${maxCsvNameLength}
        order by newest desc, key limit ${maxCsvFields + 1}) as names,
      exists (select from names where length(key) > ${maxCsvNameLength}) as has_long,
      (select min(id::text) from looked) as last, (select count(*) from looked) as looked`.execute(db)
  return rows[0]
}
