import { type RawBuilder, sql } from 'kysely'

/** A value for a column of JSON. The driver alone would write an array as a PostgreSQL array. */
export const jsonb = <T>(value: T): RawBuilder<T> => sql<T>`${JSON.stringify(value)}::jsonb`
