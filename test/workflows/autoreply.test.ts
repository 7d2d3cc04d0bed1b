import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { reconcile } from '../../workflows/reconciler.ts'
import { type FormSite, makeFormSite } from '../api/form-site.ts'
import { startMailServer } from '../infra/mail-server.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { describeHistories, record, replay } from './histories.ts'
import { openProcesses } from './processes.ts'
import { showWorkflow } from './temporal-client.ts'

const reply = {
  enabled: true,
  subject: 'Thank you, {{name}}',
  body: 'Hi **{{name}}**,\n\n- [prices](https://example.com/prices)\n\n> {{message}}',
}
const soon = { interval: 50 }

let server: Awaited<ReturnType<typeof startMailServer>>
let w: World
let owner: TestProject
let temporal: Client
let connection: Connection
beforeAll(async () => {
  server = await startMailServer()
  w = await world({ env: { PLINTH_SMTP_URL: server.url, PLINTH_MAIL_FROM: 'Plinth <noreply@plinth.example>' } })
  owner = await w.project('enterprise')
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

async function makeReplyingSite(at: World, project: TestProject, settings: object = reply, name = 'Field notes') {
  const site = await makeFormSite(at, project)
  await at.call(`PATCH /api/v1/sites/${site.id}`, { key: project.key, json: { name } })
  const { status } = await at.call(`PUT /api/v1/sites/${site.id}/autoreply`, { key: project.key, json: settings })
  expect(status).toBe(200)
  return site
}

/** Posts a form and answers the id of its submission. */
async function post(at: World, project: TestProject, site: FormSite, fields: object): Promise<string> {
  expect((await site.post(fields)).status).toBe(200)
  const { body } = await at.call(`GET /api/v1/forms/submissions?site=${site.id}&limit=1`, { key: project.key })
  return body.items[0].id
}
const outcomeOf = async (at: World, to: string) => {
  const { body } = await at.call(`GET /operator/v1/mails?to=${encodeURIComponent(to)}`, { key: operatorToken })
  return body[0]?.outcome
}
/** Waits until the relay has started the workflow, and until that has ended. */
async function resultOf(submissionId: string): Promise<unknown> {
  const handle = temporal.workflow.getHandle(`autoreply:${submissionId}`)
  const findType = () => handle.describe().then(({ type }) => type)
  await expect.poll(findType, soon).toBe('sendAutoreply')
  return await handle.result()
}
const mailsTo = (address: string) => server.received.filter(({ envelope }) => envelope.to.includes(address))

describe('a reply', () => {
  test('R04: goes to the address of the form with HTML and text, in the name of the site, as RFC 3834 asks', async () => {
    const site = await makeReplyingSite(w, owner)
    const fields = { name: 'Ada', email: 'Ada+Notes@Example.com', message: 'May I quote you?' }
    expect(await resultOf(await post(w, owner, site, fields))).toBe('sent')
    expect(server.received).toHaveLength(1)
    const [email] = server.received
    expect(email).toMatchObject({
      envelope: { from: '', to: ['ada+notes@example.com'] },
      from: { name: 'Field notes', address: 'noreply@plinth.example' },
      to: [{ address: 'ada+notes@example.com' }],
      subject: 'Thank you, Ada',
      messageId: expect.stringMatching(/^<[0-9a-f-]{36}@plinth\.example>$/),
    })
    expect(email?.text?.trimEnd()).toBe('Hi Ada,\n\n- prices (https://example.com/prices)\n\n> May I quote you?')
    expect(email?.html).toContain('<p>Hi <strong>Ada</strong>,</p>')
    expect(email?.html).toContain('<a href="https://example.com/prices" rel="nofollow noopener noreferrer">prices</a>')
    expect(email?.html).toContain('<blockquote>\n<p>May I quote you?</p>\n</blockquote>')
    expect([email?.cc, email?.bcc, email?.replyTo]).toEqual([undefined, undefined, undefined])
    const headers = Object.fromEntries(email?.headers.map(({ key, value }) => [key, value]) ?? [])
    expect(headers).toMatchObject({
      'auto-submitted': 'auto-replied',
      'x-auto-response-suppress': 'All',
      precedence: 'bulk',
    })
  })

  test('R05 77: has no header, recipient, line or tag of a visitor or a site name', async () => {
    const name = 'Ada\r\nBcc: eve@example.com\r\n\r\n<script>alert(1)</script>'
    const site = await makeReplyingSite(w, owner, reply, 'Notes" <eve@example.com>, "x')
    const result = await resultOf(await post(w, owner, site, { name, email: 'ada@inject.example', message: '**x**\n> y' }))
    expect([result, server.received.length, server.state.tries]).toEqual(['sent', 1, 1])
    const [email] = server.received
    expect(email?.envelope.to).toEqual(['ada@inject.example'])
    expect(email?.from).toEqual({ name: 'Notes eve example[.]com , x', address: 'noreply@plinth.example' })
    expect(email?.subject).toBe('Thank you, Ada Bcc: eve[@]example[.]com <script>alert(1)</script>')
    expect([email?.bcc, email?.to?.length]).toEqual([undefined, 1])
    expect(email?.html).toContain('<strong>Ada Bcc: eve[@]example[.]com &lt;script&gt;alert(1)&lt;/script&gt;</strong>')
    expect(email?.html).not.toContain('<script')
    expect(email?.text).toContain('> **x** > y')
  })

  test('R05: carries no link of a visitor to somebody else, in its subject, its HTML or its text', async () => {
    const site = await makeReplyingSite(w, owner)
    const name = 'Your account is locked: https://evil.example/unlock'
    const message =
      'Go to www.evil.example, evil\u200b.example, evil\u3002example or "https: //evil. example" or write to eve@evil.example'
    expect(await resultOf(await post(w, owner, site, { name, email: 'victim@mail.example', message }))).toBe('sent')
    const [email] = mailsTo('victim@mail.example')
    expect(email?.subject).toBe('Thank you, Your account is locked: https[://]evil[.]example/unlock')
    const evil = /(?:https?:\s*\/|www\.|@evil|evil[.\u3002]\S)/i
    for (const part of [email?.subject, email?.text, email?.html]) {
      expect(part?.replaceAll(/https:\/\/example\.com\/prices/g, '')).not.toMatch(evil)
    }
    expect(email?.html).toContain('href="https://example.com/prices"')
  })

  test('77: to anything but one plain address is not sent, and the mail server never hears of it', async () => {
    const site = await makeReplyingSite(w, owner)
    const addresses = [
      'a@example.com,b@example.com',
      'a@example.com;b@example.com',
      'a@example.com\r\nRCPT TO:<b@example.com>',
      '"a@example.com x"@internal.test',
      'a(comment)@example.com',
      'а@пример.рф',
      'a@localhost',
      'a@127.0.0.1',
      `${'a'.repeat(65)}@example.com`,
      ['a@example.com', 'b@example.com'],
    ]
    for (const email of addresses) expect(await resultOf(await post(w, owner, site, { email }))).toBe('skipped: address')
    const long = `${'a'.repeat(64)}@example.com`
    expect(await resultOf(await post(w, owner, site, { email: long }))).toBe('sent')
    expect([server.state.tries, server.received.map(({ envelope }) => envelope.to)]).toEqual([1, [[long]]])
  })
})

describe('39: while the mail server', () => {
  test.each(['puts off', 'hangs'] as const)(
    '%s, the form answers and the reply is sent once later',
    async (mood) => {
      const site = await makeReplyingSite(w, owner)
      const email = `${mood.replace(' ', '-')}@example.com`
      server.state.mood = mood
      const begin = performance.now()
      await post(w, owner, site, { email })
      expect(performance.now() - begin).toBeLessThan(10_000)
      await expect.poll(() => outcomeOf(w, email), soon).toBeNull()
      await expect.poll(() => server.state.tries, soon).toBeGreaterThan(0)
      server.state.mood = 'takes'
      // how long the platform waits itself is tested with the emails about submissions
      for (const end of server.state.hanging.splice(0)) end()
      await expect.poll(() => outcomeOf(w, email), { timeout: 120_000, interval: 200 }).toBe('sent')
      expect(mailsTo(email)).toHaveLength(1)
    },
    180_000,
  )

  test('refuses the address, the reply is not tried again', async () => {
    server.state.mood = 'refuses'
    const site = await makeReplyingSite(w, owner)
    expect(await resultOf(await post(w, owner, site, { email: 'unknown@example.com' }))).toBe('failed')
    expect(server.state.tries).toBe(1)
  })
})

describe('39: a reply is sent once', () => {
  const options = { stalledAfterMs: 0, dueWithinMs: 0, checkIntervalMs: 1000, retryPauseMs: 60_000 }
  const later = () => new Date(Date.now() + 1)

  test('when Temporal has lost its workflow', async () => {
    server.state.mood = 'puts off'
    const site = await makeReplyingSite(w, owner)
    const id = await post(w, owner, site, { email: 'lost@example.com' })
    await expect.poll(() => outcomeOf(w, 'lost@example.com'), soon).toBeNull()
    await expect.poll(() => server.state.tries, soon).toBeGreaterThan(0)
    await temporal.workflow.getHandle(`autoreply:${id}`).terminate()
    server.state.mood = 'takes'
    expect(await reconcile(w, w.workflows, later(), options)).toEqual([`autoreply:${id}`])
    await expect.poll(() => outcomeOf(w, 'lost@example.com'), soon).toBe('sent')
    expect(mailsTo('lost@example.com')).toHaveLength(1)
  })

  test('when the worker is killed between writing and sending it', async () => {
    await using quiet = await world({
      worker: false,
      env: { PLINTH_SMTP_URL: server.url, PLINTH_MAIL_FROM: 'Plinth <noreply@plinth.example>' },
    })
    await using processes = openProcesses(quiet)
    server.state.mood = 'puts off'
    const project = await quiet.project('start')
    const site = await makeReplyingSite(quiet, project)
    await post(quiet, project, site, { email: 'killed@example.com' })
    processes.start('worker')
    await expect.poll(() => server.state.tries, { timeout: 120_000 }).toBeGreaterThan(0)
    await processes.restart('worker')
    server.state.mood = 'takes'
    await expect.poll(() => outcomeOf(quiet, 'killed@example.com'), { timeout: 180_000 }).toBe('sent')
    expect(mailsTo('killed@example.com')).toHaveLength(1)
  }, 360_000)
})

const endings = [
  ['sent', 'sent'],
  ['skipped', 'skipped: address'],
] as const

describe('the workflow', () => {
  test.each(endings)('of a reply that is %s replays, and shows neither address nor field in Temporal', async (name, result) => {
    const site = await makeReplyingSite(w, owner)
    const email = name === 'sent' ? 'history@secret.example' : 'no address secret.example'
    const id = await post(w, owner, site, { name: 'Secret.example', email })
    expect(await resultOf(id)).toBe(result)
    const handle = temporal.workflow.getHandle(`autoreply:${id}`)
    await replay(await handle.fetchHistory())
    expect(showWorkflow(w.temporal, `autoreply:${id}`)).not.toMatch(/secret\.example/i)
    record(w.temporal, `autoreply:${id}`, `autoreply-${name}`)
  })
})

describeHistories(
  /^autoreply-.*\.json$/,
  endings.map(([name]) => `autoreply-${name}`),
)
