import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { defaultPlans, type PlanName } from '../../core/plans.ts'
import { decideAutoreply } from '../../services/autoreply/decide.ts'
import { purgeSite } from '../../services/removal/purge-site.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { type FormSite, makeFormSite } from './form-site.ts'

// Which submissions get a reply. No worker runs: the tests decide when the platform does.

const plans = {
  ...defaultPlans,
  start: { ...defaultPlans.start, autoreply_mails_per_month: 3 },
  business: { ...defaultPlans.business, forms_per_month: 1 },
}
const minuteMs = 60_001
const dayMs = 24 * 3_600_000

let w: World
beforeAll(async () => {
  w = await world({ worker: false, plans })
})
afterAll(() => w?.[Symbol.asyncDispose]())

const site = (project: TestProject, { id }: FormSite, endpoint: string, json?: object) => {
  const [verb = '', path = ''] = endpoint.split(' ')
  return w.call(`${verb} /api/v1/sites/${id}${path}`, { key: project.key, ...(json && { json }) })
}
const change = (project: TestProject, json: object) =>
  w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json })
const set = (project: TestProject, at: FormSite, json: object = {}) =>
  site(project, at, 'PUT /autoreply', { enabled: true, body: 'Thank you.', ...json })

async function makeReplying(plan: PlanName = 'enterprise') {
  const project = await w.project(plan)
  const form = await makeFormSite(w, project)
  await set(project, form)
  return { project, form }
}
const listDue = async ({ id }: FormSite) =>
  (
    await w.db.selectFrom('due_autoreplies').select('submission_id').where('site_id', '=', id).orderBy('submission_id').execute()
  ).map((row) => row.submission_id)
/** Decides about all submissions that wait for it, at once; answers the outcomes in the order of the submissions. */
async function decide(form: FormSite): Promise<string[]> {
  const decisions = await Promise.all((await listDue(form)).map((id) => decideAutoreply(w, id)))
  return decisions.map((decision) => (decision.state === 'written' ? 'written' : decision.reason))
}
const recipients = async ({ id }: FormSite) =>
  (await w.db.selectFrom('mails').select('recipient').where('about', '=', id).orderBy('id').execute()).map((row) => row.recipient)
const sentThisMonth = async (project: TestProject, form: FormSite) =>
  (await site(project, form, 'GET /autoreply')).body.emails_sent_this_month

test('R04 R13: a verified submission gets a reply, which counts for the project', async () => {
  const { project, form } = await makeReplying()
  await form.post({ email: 'ada@example.com' })
  expect([await decide(form), await recipients(form)]).toEqual([['written'], ['ada@example.com']])
  expect(await sentThisMonth(project, form)).toBe(1)
  expect(await sentThisMonth(project, await makeFormSite(w, project))).toBe(1)
})

test('the overview tells which sites reply', async () => {
  const { project, form } = await makeReplying()
  const other = await makeFormSite(w, project)
  const { body } = await w.call('GET /api/v1/forms/overview', { key: project.key })
  const enabled = body.sites.map((row: any) => [row.site_id, row.autoreply_enabled])
  expect(enabled).toEqual([
    [form.id, true],
    [other.id, false],
  ])
})

test.each<[string, (form: FormSite) => object]>([
  ['one that was sent too soon', () => ({ _submit_time: w.clock().getTime() })],
  ['one of a honeypot', () => ({ _hp_x: 'filled' })],
])('R04: %s asks for no reply', async (_what, fields) => {
  const { form } = await makeReplying()
  await form.post({ email: 'ada@example.com', ...fields(form) })
  expect(await listDue(form)).toEqual([])
})

test('E35: a hidden submission asks for no reply, and gets none when it is revealed', async () => {
  const { project, form } = await makeReplying('business')
  await form.post({ email: 'one@example.com' })
  await form.post({ email: 'two@example.com' })
  await change(project, { plan: 'enterprise' })
  expect(await decide(form)).toEqual(['written'])
  expect(await recipients(form)).toEqual(['one@example.com'])
})

describe('a submission gets no reply', () => {
  type Change = (project: TestProject, form: FormSite) => Promise<unknown>
  const firstId = async (project: TestProject) =>
    (await w.call('GET /api/v1/forms/submissions', { key: project.key })).body.items[0].id
  test.each<[string, string, Change]>([
    ['disabled', 'when the auto-reply was switched off', (project, form) => set(project, form, { enabled: false })],
    ['empty', 'when the body is empty', (project, form) => set(project, form, { body: ' ' })],
    ['address', 'when the form has no such field', (project, form) => set(project, form, { email_field: 'mail' })],
    ['plan', 'when the plan has none', (project) => change(project, { plan: 'free' })],
    ['suspended', 'when the project is suspended', (project) => change(project, { suspended: true })],
    ['trashed', 'when the site is in the trash', (project, form) => site(project, form, 'DELETE ')],
    [
      'unverified',
      'when it was marked as spam',
      async (project) =>
        w.call(`POST /api/v1/forms/submissions/${await firstId(project)}/status`, { key: project.key, json: { status: 'spam' } }),
    ],
  ])('%s: %s', async (reason, _when, act) => {
    const { project, form } = await makeReplying()
    await form.post({ email: 'ada@example.com' })
    await act(project, form)
    expect([await decide(form), await recipients(form)]).toEqual([[reason], []])
    expect(await sentThisMonth(project, form)).toBe(0)
  })

  test('when it was deleted', async () => {
    const { project, form } = await makeReplying()
    await form.post({ email: 'ada@example.com' })
    const id = await firstId(project)
    await w.call(`DELETE /api/v1/forms/submissions/${id}`, { key: project.key })
    expect([await listDue(form), await decideAutoreply(w, id)]).toEqual([[], { state: 'skipped', reason: 'gone' }])
  })
})

test('a decision that is repeated finds what was written', async () => {
  const { form } = await makeReplying()
  await form.post({ email: 'ada@example.com' })
  const [id = ''] = await listDue(form)
  const decisions = await Promise.all([1, 2, 3].map(() => decideAutoreply(w, id)))
  expect(new Set(decisions.map((decision) => JSON.stringify(decision))).size).toBe(1)
  expect(await recipients(form)).toEqual(['ada@example.com'])
})

test('78: 200 posts that name one victim at seven sites send it one email from each in 24 hours', async () => {
  const { project, form } = await makeReplying()
  const forms = [form]
  while (forms.length < 7) forms.push(await makeFormSite(w, project))
  for (const one of forms.slice(1)) await set(project, one)
  const spellings = ['victim@example.com', 'VICTIM@example.com', ' Victim@Example.com ']
  for (let n = 0; n < 200; n += 1) await forms[n % 7]?.post({ email: spellings[n % 3] })
  for (const one of forms) {
    const outcomes = await decide(one)
    expect(outcomes.filter((outcome) => outcome === 'written')).toHaveLength(1)
    expect(outcomes.filter((outcome) => outcome === 'repeated')).toHaveLength(outcomes.length - 1)
    expect(await recipients(one)).toEqual(['victim@example.com'])
  }
  w.advance(dayMs - minuteMs)
  await form.post({ email: 'victim@example.com' })
  expect(await decide(form)).toEqual(['repeated'])
  w.advance(2 * minuteMs)
  await form.post({ email: 'victim@example.com' })
  expect(await decide(form)).toEqual(['written'])
}, 240_000)

test('R05 78: a mailbox gets one reply of a site in 24 hours, however its address is written', async () => {
  const { project, form } = await makeReplying()
  for (const email of [
    'v.ictim@gmail.com',
    'victim+1@gmail.com',
    'VICTIM@googlemail.com',
    'victim+2@mail.example',
    'victim@mail.example',
  ]) {
    await form.post({ email })
  }
  expect((await decide(form)).toSorted()).toEqual(['repeated', 'repeated', 'repeated', 'written', 'written'])
  expect(await sentThisMonth(project, form)).toBe(2)
})

test('R05: a mailbox gets ten replies of all sites in 24 hours, and what it does not get is not counted', async () => {
  const projects = [await makeReplying(), await makeReplying()]
  const forms: [TestProject, FormSite][] = []
  for (const { project } of projects) {
    for (let n = 0; n < 6; n += 1) forms.push([project, await makeFormSite(w, project)])
  }
  for (const [n, [project, form]] of forms.entries()) {
    await set(project, form)
    await form.post({ email: `flooded+${n}@mail.example` })
  }
  const outcomes = (await Promise.all(forms.map(([, form]) => decide(form)))).flat()
  expect(outcomes.filter((outcome) => outcome === 'written')).toHaveLength(10)
  expect(outcomes.filter((outcome) => outcome === 'mailbox')).toHaveLength(2)
  const sent = await Promise.all(projects.map(({ project, form }) => sentThisMonth(project, form)))
  expect(sent.reduce((sum, one) => sum + one)).toBe(10)
  // a site whose reply was refused has one left
  const [[project, refused]] = forms.filter((_, n) => outcomes[n] === 'mailbox') as [[TestProject, FormSite]]
  w.advance(dayMs + minuteMs)
  await refused.post({ email: 'flooded@mail.example' })
  expect([await decide(refused), project.id]).toEqual([['written'], project.id])
}, 240_000)

test('the plan’s replies of a month are exact, whatever comes at once, and start again with the next month', async () => {
  const { project, form } = await makeReplying('start')
  const other = await makeFormSite(w, project)
  await set(project, other)
  for (const [n, one] of [form, other, form, other, form, other].entries()) await one.post({ email: `a${n}@example.com` })
  const outcomes = (await Promise.all([decide(form), decide(other)])).flat()
  expect(outcomes.toSorted()).toEqual(['exhausted', 'exhausted', 'exhausted', 'written', 'written', 'written'])
  expect(await sentThisMonth(project, form)).toBe(3)
  await w.db.deleteFrom('mails').where('project_id', '=', project.id).execute()
  expect(await sentThisMonth(project, form)).toBe(3)
  w.advance(32 * dayMs)
  expect(await sentThisMonth(project, form)).toBe(0)
  await form.post({ email: 'a9@example.com' })
  expect(await decide(form)).toEqual(['written'])
})

test('a site that is removed for good takes its replies with it', async () => {
  const { project, form } = await makeReplying()
  await form.post({ email: 'ada@example.com' })
  await form.post({ email: 'eve@example.com' })
  await decideAutoreply(w, (await listDue(form))[0] ?? '')
  const { body } = await site(project, form, 'DELETE ')
  w.advance(dayMs + minuteMs)
  const trashing = { site_id: form.id, purge_at: new Date(body.deletion_scheduled_at) }
  expect(await purgeSite(w, trashing, () => undefined)).toBe('purged')
  expect([await recipients(form), await listDue(form)]).toEqual([[], []])
})
