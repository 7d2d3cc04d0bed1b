import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { domainState, isVerified } from '../../core/domain-state.ts'
import { openDatabase } from '../../infra/db/database.ts'
import { isDomainUnderWay, isUnverifiedDomain, isVerifiedDomain } from '../../services/domain-predicates.ts'
import { createDatabase } from '../database.ts'

test('the conditions of queries say the same of a domain as the table of its states', async () => {
  await using database = await createDatabase()
  await using opened = openDatabase(database.url)
  const instants = [null, new Date(0)]
  const rows = instants.flatMap((verified_at) =>
    instants.flatMap((next_check_at) => instants.map((connected_at) => ({ verified_at, next_check_at, connected_at }))),
  )
  for (const row of rows) {
    const { rows: found } = await sql`
      select ${isVerifiedDomain} as verified, ${isUnverifiedDomain} as unverified, ${isDomainUnderWay} as under_way
      from (select ${row.verified_at}::timestamptz as verified_at, ${row.next_check_at}::timestamptz as next_check_at,
        ${row.connected_at}::timestamptz as connected_at) domains`.execute(opened.db)
    const state = domainState({ ...row, secured: false, order_id: null }, true)
    const verified = isVerified(row)
    const under_way = state === 'unverified' ? row.connected_at === null : state === 'connecting' && row.next_check_at !== null
    expect([row, found]).toEqual([row, [{ verified, unverified: !verified, under_way }]])
  }
})
