import { type RawBuilder, sql } from 'kysely'
import { storableJson } from '../../core/storable-texts.ts'

/** A value for a column of JSON. The driver alone would write an array as a PostgreSQL array. */
export const jsonb = <T>(value: T): RawBuilder<T> => sql<T>`${storableJson(value)}::jsonb`
