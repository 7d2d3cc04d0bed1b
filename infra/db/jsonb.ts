import { type RawBuilder, sql } from 'kysely'

/** A value for a column of JSON: the driver would write an array as one of PostgreSQL's own. */
export const jsonb = <T>(value: T): RawBuilder<T> => sql<T>`${JSON.stringify(value)}::jsonb`
