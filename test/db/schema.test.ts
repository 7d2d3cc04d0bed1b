import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { openDatabase } from '../../infra/db/database.ts'
import { inspectDatabase } from '../../infra/db/inspect.ts'
import { migrate } from '../../infra/db/migrate.ts'
import { createDatabase } from '../database.ts'

interface Column {
  readonly name: string
  readonly nullable: boolean
  readonly generated: boolean
  readonly type: string
}

const typescriptTypes: Record<string, string> = {
  uuid: 'string',
  text: 'string',
  date: 'string',
  boolean: 'boolean',
  integer: 'number',
  smallint: 'number',
  bigint: 'number',
  bytea: 'Buffer',
  jsonb: 'unknown',
  _text: 'string[]',
  _timestamptz: 'Date[]',
  'timestamp with time zone': 'Date',
}

/** Columns by table, as infra/db/schema.ts declares them. */
function declaredTables(): Record<string, Column[]> {
  const text = readFileSync(join(import.meta.dirname, '../../infra/db/schema.ts'), 'utf8')
  const interfaces = new Map(
    [...text.matchAll(/interface (\w+) \{\n([^}]*)\}/g)].map(([, name, body]) => [name ?? '', body ?? '']),
  )
  const tables = [...(interfaces.get('DB') ?? '').matchAll(/(\w+): (\w+)/g)]
  return Object.fromEntries(
    tables.map(([, table, type]) => {
      const members = [...(interfaces.get(type ?? '') ?? '').matchAll(/^ {2}(\w+): (.+)$/gm)]
      const columns = members.map(([, name, declared]) => {
        const generated = /^Generated<(.+)>$/.exec(declared ?? '')
        const plain = (generated?.[1] ?? declared ?? '').replace(' | null', '')
        return { name: name ?? '', nullable: (declared ?? '').includes('| null'), generated: generated !== null, type: plain }
      })
      return [table ?? '', columns]
    }),
  )
}

test('the declared tables are those that the migrations leave, column by column', async () => {
  await using database = await createDatabase()
  await using opened = openDatabase(database.url)
  const { rows } = await sql<{
    table_name: string
    column_name: string
    is_nullable: string
    column_default: string | null
    data_type: string
  }>`
    select table_name, column_name, is_nullable, column_default,
      case data_type when 'ARRAY' then udt_name else data_type end as data_type from information_schema.columns
    where table_schema = 'public' and table_name not like 'kysely_%'`.execute(opened.db)
  const declared = declaredTables()
  const seen = rows.map((row) => {
    const column = declared[row.table_name]?.find(({ name }) => name === row.column_name)
    return { table: row.table_name, name: row.column_name, column, row }
  })
  for (const { table, name, column, row } of seen) {
    const actual = { nullable: row.is_nullable === 'YES', generated: row.column_default !== null }
    expect([table, name, column && { nullable: column.nullable, generated: column.generated }]).toEqual([table, name, actual])
    const expected = typescriptTypes[row.data_type] ?? row.data_type
    // a text column may hold one of our own types, which are named
    const fits =
      column?.type === expected || (['string', 'string[]', 'unknown'].includes(expected) && /^[A-Z]/.test(column?.type ?? ''))
    expect([table, name, column?.type, fits]).toEqual([table, name, column?.type, true])
  }
  expect(Object.values(declared).flat()).toHaveLength(rows.length)
})

test('many processes may migrate at once, and again', async () => {
  await using database = await createDatabase()
  await using one = openDatabase(database.url)
  await using two = openDatabase(database.url)
  await sql`drop schema public cascade`.execute(one.db)
  await sql`create schema public`.execute(one.db)
  await Promise.all([migrate(one.db), migrate(two.db), migrate(one.db)])
  await migrate(two.db)
  expect(await one.db.selectFrom('projects').selectAll().execute()).toEqual([])
})

test('a start learns whether a database has every migration, and no other', async () => {
  await using database = await createDatabase()
  await using opened = openDatabase(database.url)
  const isMigrated = async () => (await inspectDatabase(database.url)).isMigrated
  expect(await isMigrated()).toBe(true)
  await sql`insert into kysely_migration (name, timestamp) values ('9999_of_a_later_version', '')`.execute(opened.db)
  expect(await isMigrated()).toBe(false)
  await sql`delete from kysely_migration where name >= '0002'`.execute(opened.db)
  expect(await isMigrated()).toBe(false)
  await sql`drop table kysely_migration`.execute(opened.db)
  expect(await isMigrated()).toBe(false)
})
