import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { required } from '../../infra/config.ts'
import { createVisits } from '../../infra/crypto/visits.ts'
import { deployFiles, makeSite, page, randomName } from '../make.ts'
import type { TestProject, World } from '../world.ts'
import { report } from './platform.ts'
import { p99, type TwoEdges, worldOfTwoEdges } from './two-edges.ts'

// What ends the visit of a member acts on every edge within a second.

const rounds = 40
/** The target is a second; the next poll is five seconds away. */
const longestMs = 1500

let w: World
let project: TestProject
let edges: TwoEdges
const stack = new AsyncDisposableStack()
beforeAll(async () => {
  ;({ w, project, edges } = stack.use(await worldOfTwoEdges()))
})
afterAll(() => stack.disposeAsync())

let site: { readonly id: string; readonly subdomain: string }
beforeEach(async () => {
  site = await makeSite(w, project)
  await deployFiles(w, project, site.id, [page('inside')])
  await call('POST access/members-mode', {})
  await call('PATCH members-settings', { consent_mode: 'checkbox' })
})

async function call(request: string, json: object): Promise<void> {
  const answer = await w.call(request.replace(' ', ` /api/v1/sites/${site.id}/`), { key: project.key, json })
  expect([request, answer.status]).toEqual([request, 200])
}

const moderate = (id: string, action: string) => call(`POST members/${id}/moderate`, { action })

async function deleteMember(member_id: string): Promise<void> {
  const args = { site_id: site.id, member_id, action: 'delete', confirm: true }
  const json = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'moderate_site_member', arguments: args } }
  const { body } = await w.call('POST /mcp', { key: project.key, json })
  expect(body.result.structuredContent).toMatchObject({ id: member_id })
}

/** A member whom both edges let in. */
async function insider() {
  const { consent_version } = await w.db
    .selectFrom('member_settings')
    .select('consent_version')
    .where('site_id', '=', site.id)
    .executeTakeFirstOrThrow()
  const of = { site_id: site.id, project_id: project.id, consent_version }
  const { id } = await w.db
    .insertInto('members')
    .values({ ...of, email: `${randomName('ada')}@example.com`, status: 'active', registered_at: new Date() })
    .returning('id')
    .executeTakeFirstOrThrow()
  const { epoch } = await w.db.selectFrom('access_locks').select('epoch').where('site_id', '=', site.id).executeTakeFirstOrThrow()
  const visits = createVisits(required(w.config.secretKey, 'PLINTH_SECRET_KEY'))
  const place = { site_id: site.id, host: `${site.subdomain}.${w.config.urls.platformDomain}`, epoch }
  const who = { subject: id, generation: 0, consent: consent_version, until: new Date(Date.now() + 3_600_000) }
  const cookie = `svc_s=${visits.issue(place, who)}`
  await edges.shown(site.subdomain, ({ status }) => status === 200, { cookie })
  return { id, cookie }
}

test.each([
  ['M05', 'blocked', (id: string) => moderate(id, 'block'), false],
  ['M12', 'deleted', deleteMember, false],
  ['M07', 'asked to consent again', () => call('POST members/reconsent', {}), true],
] as const)('%s: a member who is %s is shut out by both edges at once', async (row, what, end, isForAll) => {
  const took: number[] = []
  for (let i = 0; i < rounds; i++) {
    const other = await insider()
    const { id, cookie } = await insider()
    await end(id)
    took.push(await edges.shown(site.subdomain, ({ status }) => status === 401, { cookie }))
    const { statuses } = (await edges.watch(site.subdomain, { cookie: other.cookie }).until(isForAll ? 401 : 200))[0] ?? {}
    expect(statuses).toEqual([isForAll ? 401 : 200])
  }
  report(row, `${what}: p99 ${p99(took)} ms after the answer, ${rounds} members, two edges`, '1000 ms')
  expect(p99(took)).toBeLessThan(longestMs)
})
