import { type RawBuilder, sql } from 'kysely'
import { answerBatchBytes, answerBatchRows } from '../../core/limits.ts'

/** A row by its id, with the bytes of its columns that may be long. */
export interface RowSize {
  readonly id: string
  readonly bytes: number
}

/** The bytes of a column as text. One that PostgreSQL has compressed may be ninety times as long as what is stored of it. */
export const bytesOf = (column: string): RawBuilder<number> => {
  const value = sql.ref(column)
  return sql<number>`coalesce(case when pg_column_compression(${value}) is null then pg_column_size(${value}) else octet_length(${value}::text) end, 0)`
}

/**
 * Reads rows in batches of a bounded size, each in a query of its own: a slow reader of the rows keeps no connection. Rows that were deleted
 * in between are left out.
 * @param read rows by their ids, in any order
 */
export async function* readBySize<Row extends { readonly id: string }>(
  sizes: readonly RowSize[],
  read: (ids: string[]) => Promise<readonly Row[]>,
): AsyncGenerator<Row[]> {
  for (const ids of batchesOf(sizes)) {
    const rows = new Map((await read(ids)).map((row) => [row.id, row]))
    yield ids.flatMap((id) => rows.get(id) ?? [])
  }
}

function* batchesOf(sizes: readonly RowSize[]): Generator<string[]> {
  let batch: string[] = []
  let bytes = 0
  for (const row of sizes) {
    const isFull = batch.length >= answerBatchRows || (batch.length > 0 && bytes + row.bytes > answerBatchBytes)
    if (isFull) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(row.id)
    bytes += row.bytes
  }
  if (batch.length > 0) yield batch
}

/**
 * Reads a table with small rows in pages, each in a query of its own. Every row that is there all the time is read once.
 * @param read the first rows in the order of the list, or those that follow the last row of the page before
 */
export async function* readInPages<Row>(
  read: (page: { readonly after: Row | undefined; readonly limit: number }) => Promise<readonly Row[]>,
): AsyncGenerator<readonly Row[]> {
  for (let after: Row | undefined; ; ) {
    const rows = await read({ after, limit: answerBatchRows })
    if (rows.length > 0) yield rows
    if (rows.length < answerBatchRows) return
    after = rows.at(-1)
  }
}
