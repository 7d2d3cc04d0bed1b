import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeSite } from '../make.ts'
import { type CallOptions, operatorToken, type TestProject, type World, world } from '../world.ts'

let w: World
let owner: TestProject
let site: { id: string }
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('start')
  site = await makeSite(w, owner)
})
afterAll(() => w?.[Symbol.asyncDispose]())

const call = (verb: string, { key }: TestProject, id: string, options: CallOptions = {}) =>
  w.call(`${verb} /api/v1/sites/${id}/autoreply`, { key, ...options })
const put = (json: object, project = owner, id = site.id) => call('PUT', project, id, { json })
const change = (project: TestProject, json: object) =>
  w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json })

test('R13: a new site has an auto-reply that is off, with what the plan allows', async () => {
  const { status, body } = await call('GET', owner, (await makeSite(w, owner)).id)
  expect([status, body]).toEqual([
    200,
    {
      enabled: false,
      subject: '',
      body: '',
      email_field: 'email',
      files: [],
      delivery: {
        link_ttl_days: 7,
        page_title: null,
        upsell_text: null,
        page_logo_url: null,
        page_logo_framed: false,
        page_logo_rounded: false,
      },
      entitled: true,
      required_plan: 'start',
      emails_sent_this_month: 0,
      emails_limit: 200,
    },
  ])
})

test('R01: a write replaces all settings, and what it leaves out becomes empty', async () => {
  const all = { enabled: true, subject: 'Thanks, {{name}} 👋', body: '**Hi**\n\nbye', email_field: 'e-mail' }
  expect((await put(all)).body).toMatchObject(all)
  expect((await call('GET', owner, site.id)).body).toMatchObject(all)
  expect((await put({ enabled: false })).body).toMatchObject({ enabled: false, subject: '', body: '', email_field: 'email' })
})

describe('R02: a text', () => {
  test.each([
    ['subject', 120],
    ['body', 4096],
    ['email_field', 64],
  ])('%s of %i characters is taken, and a longer one refused with 400', async (name, limit) => {
    for (const letter of ['x', '👋']) {
      expect((await put({ enabled: false, [name]: letter.repeat(limit) })).body[name]).toBe(letter.repeat(limit))
      const { status, body, headers } = await put({ enabled: false, [name]: letter.repeat(limit + 1) })
      expect([status, headers.get('plinth-error')]).toEqual([400, 'invalid'])
      expect(body.message).toBe(`${name} has more than ${limit} characters`)
    }
  })

  test.each([
    ['subject', 'two\r\nlines'],
    ['subject', 'a\u0007bell'],
    ['subject', 'half \ud800'],
    ['body', 'NUL \u0000'],
    ['email_field', 'NUL \u0000'],
    ['body', 7],
  ])('%s as %j is refused with 422', async (name, value) =>
    expect((await put({ enabled: false, [name]: value })).status).toBe(422),
  )

  test('enabled is required', async () => expect((await put({ subject: 'Hi' })).status).toBe(422))
})

test('R03 Z02: below Start it is refused with 402 that names the plan, and may be switched off', async () => {
  const free = await w.project('free')
  const { id } = await makeSite(w, free)
  const { status, body, headers } = await put({ enabled: true, subject: 'not taken' }, free, id)
  expect([status, headers.get('plinth-error')]).toEqual([402, 'plan_autoreply'])
  expect(body.message).toContain('Start')
  expect((await put({ enabled: false, body: 'Later' }, free, id)).body).toMatchObject({
    subject: '',
    body: 'Later',
    entitled: false,
    emails_limit: 0,
  })
})

test.each([['start'], ['pro'], ['business'], ['scale'], ['enterprise']] as const)('Z02: %s has it', async (plan) => {
  const project = await w.project(plan)
  const { id } = await makeSite(w, project)
  expect((await put({ enabled: true }, project, id)).body).toMatchObject({ enabled: true, entitled: true })
})

test('E38: a suspended project may not enable it, and may switch it off', async () => {
  const project = await w.project('start')
  const { id } = await makeSite(w, project)
  await put({ enabled: true }, project, id)
  await change(project, { suspended: true })
  const refused = await put({ enabled: true, subject: 'not taken' }, project, id)
  expect([refused.status, refused.headers.get('plinth-error')]).toEqual([402, 'suspended'])
  expect((await put({ enabled: false }, project, id)).body).toMatchObject({ enabled: false, subject: '' })
})

test('that of a site in the trash can be read and not written', async () => {
  const { id } = await makeSite(w, owner)
  await put({ enabled: true, subject: 'Hi' }, owner, id)
  await w.call(`DELETE /api/v1/sites/${id}`, { key: owner.key })
  expect((await call('GET', owner, id)).body).toMatchObject({ subject: 'Hi' })
  const refused = await put({ enabled: false }, owner, id)
  expect([refused.status, refused.headers.get('plinth-error')]).toEqual([409, 'in_trash'])
})
