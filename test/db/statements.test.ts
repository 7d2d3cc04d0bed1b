import { randomBytes } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openDatabase } from '../../infra/db/database.ts'
import { jsonb } from '../../infra/db/jsonb.ts'
import { createStatementNames } from '../../infra/db/statements.ts'
import { createDatabase, type TestDatabase } from '../database.ts'

const uses = 5
const times = <T>(count: number, make: (i: number) => T) => Array.from({ length: count }, (_, i) => make(i))

describe('names of statements', () => {
  test('a text has a name from its fifth use on, and keeps it', () => {
    const names = createStatementNames()
    expect(times(8, () => names.nameOf('a'))).toEqual([...times(4, () => undefined), ...times(4, () => 'plinth_1')])
    expect(times(5, () => names.nameOf('b')).at(-1)).toBe('plinth_2')
    expect(names.nameOf('a')).toBe('plinth_1')
  })

  test('once they are forgotten, a text gets another', () => {
    const names = createStatementNames()
    times(uses, () => names.nameOf('a'))
    names.forget()
    expect(times(uses, () => names.nameOf('a'))).toEqual([...times(4, () => undefined), 'plinth_2'])
  })

  test('texts that seldom come take no names from others', () => {
    const names = createStatementNames()
    for (let round = 0; round < uses - 1; round++) for (let i = 0; i < 500; i++) names.nameOf(`rare ${i}`)
    expect(times(uses, () => names.nameOf('frequent')).at(-1)).toBe('plinth_1')
  })

  test('there are at most 256, and none for a long text', () => {
    const names = createStatementNames()
    expect(times(uses, () => names.nameOf('x'.repeat(8193))).at(-1)).toBeUndefined()
    const found = times(300, (i) => times(uses, () => names.nameOf(`text ${i}`)).at(-1))
    expect(found.filter((name) => name !== undefined)).toHaveLength(256)
    expect(names.nameOf('text 0')).toBe('plinth_1')
  })
})

describe('prepared statements', () => {
  let database: TestDatabase
  beforeAll(async () => {
    database = await createDatabase()
  })
  afterAll(() => database[Symbol.asyncDispose]())

  /** A table with one row. */
  async function makeTable(db: Kysely<any>): Promise<string> {
    const table = `t_${randomBytes(6).toString('hex')}`
    await sql`create table ${sql.table(table)} (id int primary key)`.execute(db)
    await sql`insert into ${sql.table(table)} values (1)`.execute(db)
    return table
  }
  const read = async (db: Kysely<any>, table: string) => await db.selectFrom(table).selectAll().where('id', '=', 1).execute()
  const preparedOf = async (db: Kysely<any>, table: string) =>
    (await sql<{ name: string }>`select name from pg_prepared_statements where strpos(statement, ${table}) > 0`.execute(db)).rows

  test('a connection prepares what is sent often', async () => {
    await using opened = openDatabase(database.url, { names: createStatementNames() })
    await opened.db.connection().execute(async (db) => {
      const table = await makeTable(db)
      for (let i = 1; i < uses; i++) await read(db, table)
      expect(await preparedOf(db, table)).toEqual([])
      for (let i = 0; i < 3; i++) expect(await read(db, table)).toEqual([{ id: 1 }])
      expect(await preparedOf(db, table)).toHaveLength(1)
    })
  })

  test('a migration beside it fails no query, and at most one transaction', async () => {
    await using opened = openDatabase(database.url, { names: createStatementNames() })
    const table = await makeTable(opened.db)
    const change = (column: string) => sql`alter table ${sql.table(table)} add ${sql.ref(column)} int`.execute(opened.db)
    await opened.db.connection().execute(async (db) => {
      for (let i = 0; i < 8; i++) await read(db, table)
      await change('a')
      expect(await read(db, table)).toEqual([{ id: 1, a: null }])
      for (let i = 0; i < 8; i++) await read(db, table)
      await change('b')
      const inTransaction = () => db.transaction().execute(async (tx) => await read(tx, table))
      await expect(inTransaction()).rejects.toThrow('cached plan must not change result type')
      for (let i = 0; i < 8; i++) expect(await inTransaction()).toEqual([{ id: 1, a: null, b: null }])
    })
  })
})

describe('texts that PostgreSQL refuses', () => {
  const texts = ['a\0b', 'a\uD83Db']
  test('are stored with a replacement character, as text, in a list and in JSON', async () => {
    await using database = await createDatabase()
    await using opened = openDatabase(database.url)
    for (const text of texts) {
      const { rows } = await sql`
        select ${text}::text as text, ${[text]}::text[] as list, ${jsonb({ [text]: text })} as made,
          ${{ of: text }}::jsonb as object, ${sql.val([{ of: text }])}::jsonb[] as objects`.execute(opened.db)
      const stored = 'a\uFFFDb'
      expect(rows).toEqual([
        { text: stored, list: [stored], made: { [stored]: stored }, object: { of: stored }, objects: [{ of: stored }] },
      ])
    }
  })
})
