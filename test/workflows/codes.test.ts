import { request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { gatePaths } from '../../core/visits.ts'
import { type ClosedSite, loginAnswerTo, makeClosedSite } from '../api/closed-site.ts'
import { newAddress } from '../api/form-site.ts'
import { challengeOf, newEmail } from '../api/member-site.ts'
import { startMailServer } from '../infra/mail-server.ts'
import { type TestProject, type World, world } from '../world.ts'
import { describeHistories, record, replay } from './histories.ts'
import { openProcesses } from './processes.ts'
import { showWorkflow } from './temporal-client.ts'

let mail: Awaited<ReturnType<typeof startMailServer>>
let w: World
let owner: TestProject
let site: ClosedSite
const cleanup = new AsyncDisposableStack()
beforeAll(async () => {
  mail = cleanup.use(await startMailServer())
  w = cleanup.use(await world({ env: { PLINTH_SMTP_URL: mail.url } }))
  owner = await w.project('enterprise')
})
afterAll(() => cleanup.disposeAsync())
beforeEach(async () => {
  mail.state.mood = 'takes'
  site = await makeClosedSite(w, owner, 'email')
})

async function list(of: World, { id: site_id, project_id }: ClosedSite): Promise<string> {
  const email = newEmail()
  await of.db.insertInto('access_emails').values({ site_id, project_id, email, created_at: new Date() }).execute()
  return email
}
const mailsTo = (email: string) => mail.received.filter(({ envelope }) => envelope.to.includes(email))
const codeRow = (of: World, id: string) =>
  of.db.selectFrom('access_codes').select(['sealed_code', 'sent_at']).where('id', '=', id).executeTakeFirst()

const endings = ['sent', 'dropped', 'failed'] as const

describe('the workflow', () => {
  test.each(endings)('of a code that ends as %s replays, and shows neither address nor code in Temporal', async (ending) => {
    await using connection = Object.assign(await Connection.connect({ address: w.temporal.address }), {
      [Symbol.asyncDispose]: async () => undefined,
    })
    const temporal = new Client({ connection, namespace: w.temporal.namespace })
    mail.state.mood = ending === 'failed' ? 'refuses' : 'takes'
    const email = ending === 'dropped' ? newEmail() : await list(w, site)
    const id = challengeOf(await site.post(gatePaths.email, { email, to: '/' }))
    await expect.poll(async () => (await codeRow(w, id))?.sealed_code).toBeNull()
    const handle = temporal.workflow.getHandle(`code:${id}`)
    expect(await handle.result()).toBe(ending)
    await replay(await handle.fetchHistory())
    const shown = showWorkflow(w.temporal, `code:${id}`)
    expect(shown).not.toContain('example.com')
    const [sent] = mailsTo(email)
    if (sent) expect(shown).not.toContain(/\b\d{6}\b/.exec(sent.text ?? '')?.[0])
    record(w.temporal, `code:${id}`, `code-${ending}`)
  })
})

describeHistories(
  /^code-.*\.json$/,
  endings.map((ending) => `code-${ending}`),
)

test('E02: while the mail server is away the code lies sealed, and in no email', async () => {
  mail.state.mood = 'puts off'
  const email = await list(w, site)
  const id = challengeOf(await site.post(gatePaths.email, { email, to: '/' }))
  await expect.poll(async () => (await codeRow(w, id))?.sent_at).not.toBeNull()
  expect((await codeRow(w, id))?.sealed_code).toMatch(/^v1\./)
  expect(await w.db.selectFrom('mails').select('id').where('recipient', '=', email).execute()).toEqual([])
  mail.state.mood = 'takes'
  await expect.poll(() => mailsTo(email).length, { timeout: 30_000 }).toBe(1)
  await expect.poll(async () => (await codeRow(w, id))?.sealed_code).toBeNull()
})

test('E02: a code that was answered for is emailed, although kill -9 ends the api right after the answer', async () => {
  await using own = await world({ worker: false, env: { PLINTH_SMTP_URL: mail.url } })
  await using processes = openProcesses(own)
  const closed = await makeClosedSite(own, await own.project('enterprise'), 'email')
  processes.start('worker')
  processes.start('api')
  const emails: string[] = []
  for (let round = 0; round < 3; round++) {
    const email = await list(own, closed)
    expect(await askProcess(own, closed, email)).toBe(401)
    await processes.restart('api')
    emails.push(email)
  }
  for (const email of emails) await expect.poll(() => mailsTo(email).length, { timeout: 60_000 }).toBe(1)
})

/** Asks the api's process for a code as soon as it listens. */
async function askProcess(of: World, { host, url }: ClosedSite, email: string): Promise<number> {
  const form = new URLSearchParams({ email, to: '/' }).toString()
  for (;;) {
    const outgoing = request({
      socketPath: of.config.sockets.api,
      path: gatePaths.email,
      method: 'POST',
      headers: {
        host,
        origin: new URL(url).origin,
        'content-type': 'application/x-www-form-urlencoded',
        'x-forwarded-for': newAddress(),
      },
    }).end(form)
    const answer = await loginAnswerTo(outgoing).catch(() => undefined)
    if (answer) return answer.status
    await pause(50)
  }
}
