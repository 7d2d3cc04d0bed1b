import { type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Db } from './database.ts'
import type { DB } from './schema.ts'

export const rowsAtOnce = 1000

/**
 * Deletes the rows of a table that meet a condition, a thousand in a statement, so that none holds many locks for long. May be repeated.
 * @param locked whether rows that another transaction has locked are waited for or left
 * @returns the number of deleted rows
 */
export async function deleteInSteps(
  db: Db,
  table: keyof DB,
  condition: RawBuilder<SqlBool>,
  locked: 'wait' | 'skip' = 'wait',
): Promise<number> {
  const lock = locked === 'skip' ? sql`for update skip locked` : sql`for update`
  const some = sql`select ctid from ${sql.table(table)} where ${condition} limit ${rowsAtOnce} ${lock}`
  let deleted = 0
  for (;;) {
    const { numAffectedRows } = await sql`delete from ${sql.table(table)} where ctid = any (array(${some}))`.execute(db)
    deleted += Number(numAffectedRows)
    if (Number(numAffectedRows) < rowsAtOnce) return deleted
  }
}
