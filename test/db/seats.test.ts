import { expect, test } from 'vitest'
import { memberModes, memberStatuses, takesSeat } from '../../core/members.ts'
import { openDatabase } from '../../infra/db/database.ts'
import { countSeats } from '../../services/members/seats.ts'
import { createDatabase } from '../database.ts'

const now = new Date('2026-09-07T10:00:00Z')
const instants = [null, -1, 0, 1].map((ms) => (ms === null ? null : new Date(now.getTime() + ms)))
/** Nothing is paid for until an instant without a payment. */
const payments = instants.flatMap((paid_at) =>
  (paid_at === null ? [null] : instants).map((paid_until) => ({ paid_at, paid_until })),
)
const standings = memberStatuses.flatMap((status) => payments.map((payment) => ({ status, ...payment })))

test('M11: the query that counts seats says the same of a member as the rule who takes one', async () => {
  await using database = await createDatabase()
  await using opened = openDatabase(database.url)
  const { db } = opened
  const project = { name: 'P', owner_email: 'owner@example.com', plan: 'pro' } as const
  const { id: project_id } = await db.insertInto('projects').values(project).returning('id').executeTakeFirstOrThrow()
  const site = { project_id, name: 'S', subdomain: 'seats-of-members' }
  const { id: site_id } = await db.insertInto('sites').values(site).returning('id').executeTakeFirstOrThrow()
  for (const standing of standings) {
    const payment = standing.paid_at && ({ paid_minor: 100, paid_currency: 'RUB', paid_provider: 'test' } as const)
    const row = { site_id, project_id, email: 'ada@example.com', registered_at: now, ...standing }
    await db
      .insertInto('members')
      .values({ ...row, ...payment })
      .execute()
    const counts = await Promise.all(memberModes.map((mode) => countSeats(db, site_id, mode, now)))
    expect([standing, counts]).toEqual([standing, memberModes.map((mode) => Number(takesSeat(standing, mode, now)))])
    await db.deleteFrom('members').where('site_id', '=', site_id).execute()
  }
})
