import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { composeEmail, type EmailKind } from '../../core/emails.ts'
import { emailPeriodMs } from '../../core/limits.ts'
import { queueEmailToOwner } from '../../services/emails/emails.ts'
import { deleteExpired } from '../../services/removal/expired.ts'
import { transact } from '../../services/transact.ts'
import { reconcile } from '../../workflows/reconciler.ts'
import { startMailServer } from '../infra/mail-server.ts'
import { operatorToken, type World, world } from '../world.ts'
import { describeHistories, record, replay } from './histories.ts'
import { showWorkflow } from './temporal-client.ts'

const topic = { kind: 'domain_live', about: 'www.example.com' } as const
const sender = 'Plinth <noreply@plinth.example>'

let server: Awaited<ReturnType<typeof startMailServer>>
let w: World
let temporal: Client
let connection: Connection
beforeAll(async () => {
  server = await startMailServer()
  w = await world({ env: { PLINTH_SMTP_URL: server.url } })
  connection = await Connection.connect({ address: w.temporal.address })
  temporal = new Client({ connection, namespace: w.temporal.namespace })
})
afterAll(async () => {
  await connection?.close()
  await w?.[Symbol.asyncDispose]()
  await server?.[Symbol.asyncDispose]()
})
beforeEach(() => {
  server.state.mood = 'takes'
  server.state.tries = 0
  server.received.length = 0
})

const listEmails = async (at: World, to: string) =>
  (await at.call(`GET /operator/v1/mails?to=${encodeURIComponent(to)}`, { key: operatorToken })).body

/** A project whose owner has this address, and an email to that owner. */
async function queue(at: World, owner_email: string, subject = 'Hello', paragraphs = ['How are you?']) {
  const row = { name: 'mailing', owner_email, plan: 'free' as const }
  const { id } = await at.db.insertInto('projects').values(row).returning('id').executeTakeFirstOrThrow()
  await transact(at, (tx) => queueEmailToOwner(tx, id, composeEmail(topic, subject, paragraphs), { sender, now: new Date() }))
  return owner_email
}
const outcomeOf = async (at: World, to: string) => (await listEmails(at, to))[0].outcome

/** The whole history of an email, as operators see it. */
const shownInTemporal = (id: string) => {
  return showWorkflow(w.temporal, `email:${id}`)
}

const soon = { interval: 50 }

describe('an email', () => {
  test('is sent once, to exactly the owner, in plain text and in HTML, and stays readable', async () => {
    const to = await queue(w, 'anna@example.com', 'Hi <b>', ['See https://example.com/a?b=1&c=2.', '<script>x</script>'])
    await expect.poll(() => outcomeOf(w, to), soon).toBe('sent')
    expect(server.received).toHaveLength(1)
    const [email] = server.received
    const [kept] = await listEmails(w, to)
    expect(email).toMatchObject({
      envelope: { from: 'noreply@plinth.example', to: ['anna@example.com'] },
      from: { address: 'noreply@plinth.example', name: 'Plinth' },
      to: [{ address: 'anna@example.com' }],
      subject: 'Hi <b>',
      messageId: `<${kept.id}@plinth.example>`,
    })
    expect(email?.headers).toContainEqual(expect.objectContaining({ key: 'auto-submitted', value: 'auto-generated' }))
    expect(email?.text).toContain('<script>x</script>')
    expect(email?.html).toContain('&lt;script&gt;')
    expect(email?.html).toContain('<a href="https://example.com/a?b=1&amp;c=2">')
    expect(email?.html).not.toContain('<script')
    expect(kept).toMatchObject({ to, from: sender, subject: 'Hi <b>', sent_at: expect.any(String) })
  })

  test('U03: that is put off is tried again with the same Message-ID until it is taken', async () => {
    server.state.mood = 'puts off'
    const to = await queue(w, 'later@example.com')
    await expect.poll(() => server.state.tries, soon).toBeGreaterThan(0)
    expect(await outcomeOf(w, to)).toBeNull()
    server.state.mood = 'takes'
    await expect.poll(() => outcomeOf(w, to), soon).toBe('sent')
    expect(server.received).toHaveLength(1)
  })

  test('that is put off shows no address in Temporal, although the mail server names it', async () => {
    server.state.mood = 'puts off'
    const to = await queue(w, 'put-off@example.com')
    await expect.poll(() => server.state.putOff, soon).toContain(to)
    server.state.mood = 'takes'
    await expect.poll(() => outcomeOf(w, to), soon).toBe('sent')
    const [{ id }] = await listEmails(w, to)
    expect(shownInTemporal(id)).toContain('the mail server answered RCPT TO with 451')
    expect(shownInTemporal(id)).not.toContain('example.com')
  })

  test('whose recipient is refused for good is not tried again', async () => {
    server.state.mood = 'refuses'
    const to = await queue(w, 'nobody@example.com')
    await expect.poll(() => outcomeOf(w, to), soon).toBe('failed')
    expect([server.state.tries, server.received.length, (await listEmails(w, to))[0].sent_at]).toEqual([1, 0, null])
  })

  test.each([
    '"a@example.com x"@internal.test',
    'a@example.com,b@example.com',
    'a@example.com;b@example.com',
    'a(comment)@example.com',
    'a@example.com\r\nBcc: b@example.com',
    'Anna <a@example.com>',
    'a@b@example.com',
    'a@[127.0.0.1]',
  ])('to the address %j is not sent: the mail server never hears of it', async (address) => {
    const to = await queue(w, address)
    await expect.poll(() => outcomeOf(w, to), soon).toBe('failed')
    expect(server.state.tries).toBe(0)
  })

  test('has a subject of one line, whatever it is made of', async () => {
    const to = await queue(w, 'line@example.com', 'a\r\nBcc: b@example.com\n\u0007x')
    await expect.poll(() => outcomeOf(w, to), soon).toBe('sent')
    expect(server.received[0]).toMatchObject({ subject: 'a Bcc: b@example.com x', envelope: { to: ['line@example.com'] } })
    expect(server.received[0]?.bcc).toBeUndefined()
  })

  test('whose workflow Temporal has lost is sent after all', async () => {
    server.state.mood = 'puts off'
    const to = await queue(w, 'lost@example.com')
    await expect.poll(() => server.state.tries, soon).toBeGreaterThan(0)
    const [{ id }] = await listEmails(w, to)
    await temporal.workflow.getHandle(`email:${id}`).terminate()
    server.state.mood = 'takes'
    const options = { stalledAfterMs: 0, dueWithinMs: 0, checkIntervalMs: 1000, retryPauseMs: 60_000 }
    expect(await reconcile(w, w.workflows, new Date(Date.now() + 1), options)).toContain(`email:${id}`)
    await expect.poll(() => outcomeOf(w, to), soon).toBe('sent')
    expect(server.received).toHaveLength(1)
  })
})

test('without a mail server emails are kept, and the newest comes first', async () => {
  await using without = await world()
  const to = await queue(without, 'kept@example.com', 'first')
  await expect.poll(() => outcomeOf(without, to), soon).toBe('kept')
  await queue(without, 'kept@example.com', 'second')
  const subjects = (await listEmails(without, to)).map((mail: { subject: string }) => mail.subject)
  expect(subjects).toEqual(['second', 'first'])
  expect((await without.call('GET /operator/v1/mails?limit=1', { key: operatorToken })).body).toHaveLength(1)
  const project = await without.project()
  expect((await without.call('GET /operator/v1/mails', { key: project.key })).status).toBe(401)
})

describe('E38: many emails of one kind about one thing', () => {
  let quiet: World
  beforeAll(async () => {
    quiet = await world({ worker: false })
  })
  afterAll(() => quiet?.[Symbol.asyncDispose]())

  async function owner(): Promise<string> {
    return (await quiet.project()).id
  }
  const email = (projectId: string, about: string, at: Date, kind: EmailKind = 'domain_live') =>
    transact(quiet, (tx) => queueEmailToOwner(tx, projectId, composeEmail({ kind, about }, kind, ['x']), { sender, now: at }))
  const written = (projectId: string) =>
    quiet.db
      .selectFrom('mails')
      .select(['kind', 'about', 'suppressed'])
      .where('project_id', '=', projectId)
      .orderBy('id')
      .execute()

  test('are sent three times an hour, and the last one counts those that were not', async () => {
    const id = await owner()
    const now = new Date()
    for (let count = 0; count < 25; count++) await email(id, 'a.example.com', now)
    const one = { kind: 'domain_live', about: 'a.example.com', suppressed: 0 }
    expect(await written(id)).toEqual([one, one, { ...one, suppressed: 22 }])
  })

  test('are never more when they are written at once', async () => {
    const id = await owner()
    const now = new Date()
    await Promise.all(Array.from({ length: 10 }, () => email(id, 'a.example.com', now)))
    const rows = await written(id)
    expect([rows.length, rows.reduce((sum, { suppressed }) => sum + suppressed, 0)]).toEqual([3, 7])
  })

  test('keep no email of another kind, about another thing, or of the next hour from the owner', async () => {
    const id = await owner()
    const now = new Date()
    for (let count = 0; count < 4; count++) await email(id, 'a.example.com', now)
    await email(id, 'b.example.com', now)
    await email(id, 'a.example.com', now, 'domain_lost')
    await email(id, 'a.example.com', new Date(now.getTime() + 3_600_000))
    expect((await written(id)).map(({ kind, about }) => `${kind} ${about}`).slice(3)).toEqual([
      'domain_live b.example.com',
      'domain_lost a.example.com',
      'domain_live a.example.com',
    ])
  })

  test('E37: an email is deleted after 30 days', async () => {
    const id = await owner()
    const now = new Date()
    await email(id, 'old.example.com', new Date(now.getTime() - emailPeriodMs - 1000))
    await email(id, 'new.example.com', new Date(now.getTime() - emailPeriodMs + 60_000))
    await deleteExpired(quiet.db, now)
    expect((await written(id)).map(({ about }) => about)).toEqual(['new.example.com'])
  })
})

const endings = ['sent', 'failed'] as const

describe('the workflow', () => {
  test.each(endings)('of an email that is %s replays, and shows no address in Temporal', async (ending) => {
    server.state.mood = ending === 'sent' ? 'takes' : 'refuses'
    const to = await queue(w, `${ending}-history@example.com`)
    await expect.poll(() => outcomeOf(w, to), soon).toBe(ending)
    const [{ id }] = await listEmails(w, to)
    const handle = temporal.workflow.getHandle(`email:${id}`)
    expect(await handle.result()).toBe(ending)
    await replay(await handle.fetchHistory())
    expect(shownInTemporal(id)).not.toContain('example.com')
    record(w.temporal, `email:${id}`, `email-${ending}`)
  })
})

describeHistories(
  /^email-.*\.json$/,
  endings.map((ending) => `email-${ending}`),
)
