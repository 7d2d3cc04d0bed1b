import pg from 'pg'
import { storableJson, storableText } from '../../core/storable-texts.ts'

// bigint columns hold byte counts and versions, all far below 2^53
pg.types.setTypeParser(pg.types.builtins.INT8, Number)
// a date column is a calendar day, not an instant
pg.types.setTypeParser(pg.types.builtins.DATE, (text) => text)

/** At most so many texts have a name. Each costs every connection that sends it some ten kilobytes of PostgreSQL's memory. */
const maxNames = 256
/** A longer text would cost more, and has a list of a length that seldom comes again. */
const maxNamedLength = 8192
/** Texts of lists that differ in length are seldom sent so often, and leave the names to others. */
const usesUntilNamed = 5
/** Of texts without a name. */
const maxCounted = 1000

export interface StatementNames {
  /** Counts one more use of a text. Returns its name, if it is a frequent one. */
  nameOf(text: string): string | undefined
  /** Takes all names back. A text that is still frequent gets another one than before. */
  forget(): void
}

export function createStatementNames(): StatementNames {
  const names = new Map<string, string>()
  const uses = new Map<string, number>()
  let made = 0
  return {
    nameOf(text) {
      const name = names.get(text)
      if (name !== undefined || names.size >= maxNames || text.length > maxNamedLength) return name
      const count = (uses.get(text) ?? 0) + 1
      // frequent texts count up to their names long before rare ones fill this
      if (uses.size >= maxCounted) uses.clear()
      uses.set(text, count)
      if (count < usesUntilNamed) return undefined
      uses.delete(text)
      made += 1
      names.set(text, `plinth_${made}`)
      return names.get(text)
    },
    forget: () => names.clear(),
  }
}

/** Of the whole process, so that a new connection prepares at once what others send often. */
export const namesOfProcess = createStatementNames()

/**
 * Sends a statement. Frequent ones are prepared: each connection plans them once, which takes PostgreSQL longer than executing most of them.
 * @param values without any, the statement is not prepared: it is seldom sent, or there is nothing to plan
 */
export async function sendStatement(
  client: pg.ClientBase,
  names: StatementNames,
  text: string,
  values: readonly unknown[],
): Promise<pg.QueryResult> {
  const unnamed = { text, values: values.map(storable) }
  const name = values.length === 0 ? undefined : names.nameOf(text)
  if (name === undefined) return await client.query(unnamed)
  try {
    return await client.query({ name, ...unnamed })
  } catch (error) {
    if (!isOutdated(error)) throw error
    names.forget()
    // a transaction has failed as a whole
    if (client.getTransactionStatus() !== 'I') throw error
    return await client.query(unnamed)
  }
}

/** Whether a migration has changed the columns that a prepared statement returns. The connection refuses it under its name from then on. */
const isOutdated = (error: unknown) => error instanceof pg.DatabaseError && error.routine === 'RevalidateCachedQuery'

/** The parameter without the characters that PostgreSQL refuses, so that no text from outside makes a statement fail. */
function storable(value: unknown): unknown {
  if (typeof value === 'string') return storableText(value)
  if (typeof value !== 'object' || value === null || value instanceof Date || ArrayBuffer.isView(value)) return value
  // the driver would write an object as JSON, and a list as an array of PostgreSQL
  return Array.isArray(value) ? value.map(storable) : storableJson(value)
}
