import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { DeployStatus } from '../../core/deploy.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ edge: true })
  owner = await w.project('enterprise')
})
afterAll(() => w[Symbol.asyncDispose]())

type Method = 'GET' | 'POST' | 'DELETE'
const call = (method: Method, path: string, project = owner) => w.call(`${method} /api/v1/${path}`, { key: project.key })
const issue = (deploy: { id: string }, project = owner) => call('POST', `deploys/${deploy.id}/preview`, project)
const revoke = (deploy: { id: string }, project = owner) => call('DELETE', `deploys/${deploy.id}/preview`, project)
const get = async (deploy: { id: string }) => (await call('GET', `deploys/${deploy.id}`)).body

/** A deploy that is built and not published, of a site of its own. */
async function unpublished(text = 'next', project = owner): Promise<any> {
  const site = await makeSite(w, project)
  return await deployFiles(w, project, site.id, [page(text)], false)
}

const until = (url: string, status: number, options = {}) =>
  expect.poll(async () => (await w.open(url)).status, options).toBe(status)
const withinASecond = { timeout: 1000 }
/** A machine that is busy with other things may be late once. */
const onBusyMachines = { retry: 2 }

describe('issuing', () => {
  test('P01 A07 J04: the link has the preview address and a token of 52 characters, opens without a key, and repeats', async () => {
    const deploy = await unpublished('to be seen')
    expect(deploy.preview_url).toBeNull()
    const { status, body } = await issue(deploy)
    const token = expect.stringMatching(/^[a-z2-7]{52}$/)
    expect([status, body]).toEqual([
      200,
      { deploy_id: deploy.id, url: expect.any(String), token, created_at: expect.any(String) },
    ])
    expect(body.url).toBe(`${w.config.urls.preview}/${body.token}/`)
    expect((await w.open(body.url)).body).toContain('to be seen')
    expect((await issue(deploy)).body).toEqual(body)
    const byTool = await w.tool('get_preview_url', { deploy_id: deploy.id }, owner.key)
    expect(byTool.structuredContent).toEqual(body)
    expect((await get(deploy)).preview_url).toBe(body.url)
    expect((await call('GET', `sites/${deploy.site_id}/deploys`)).body[0].preview_url).toBe(body.url)
  })

  test('P01: the same link for parallel calls, another for another deploy', async () => {
    const [one, two] = [await unpublished(), await unpublished()]
    const answers = await Promise.all([one, one, one, one, two].map((deploy) => issue(deploy)))
    expect(new Set(answers.slice(0, 4).map((answer) => answer.body.url)).size).toBe(1)
    expect(answers[4]?.body.url).not.toBe(answers[0]?.body.url)
  })

  test('P01: a superseded deploy can be looked at too', async () => {
    const site = await makeSite(w, owner)
    const before = await deployFiles(w, owner, site.id, [page('before')])
    await deployFiles(w, owner, site.id, [page('after')])
    const { body } = await issue(before)
    expect((await w.open(body.url)).body).toContain('before')
    await expect.poll(async () => (await w.visit(site.subdomain)).body).toContain('after')
  })

  test('P02: it opens when the site is switched off, and not while the project is suspended', async () => {
    const project = await w.project('start')
    const deploy = await unpublished('hidden', project)
    const { url } = (await issue(deploy, project)).body
    const json = { enabled: false }
    expect((await w.call(`POST /api/v1/sites/${deploy.site_id}/enabled`, { key: project.key, json })).status).toBe(200)
    expect((await w.open(url)).status).toBe(200)
    const suspend = (suspended: boolean) =>
      w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json: { suspended } })
    await suspend(true)
    await until(url, 503)
    await suspend(false)
    await until(url, 200)
  })

  test('a token that another secret key had made opens no more, and the next call issues a link again', async () => {
    const deploy = await unpublished()
    await issue(deploy)
    await w.db
      .updateTable('preview_links')
      .set({ token_sha256: 'a'.repeat(64) })
      .where('deploy_id', '=', deploy.id)
      .execute()
    expect((await get(deploy)).preview_url).toBeNull()
    await until((await issue(deploy)).body.url, 200)
  })
})

describe('refusals', () => {
  test('P03 Z02: below Start it is 402 and names the plan; a suspended project is 402', async () => {
    const project = await w.project('start')
    const deploy = await unpublished('x', project)
    const change = (json: object) => w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json })
    const { url } = (await issue(deploy, project)).body
    await change({ plan: 'free' })
    const refused = await issue(deploy, project)
    expect([refused.status, refused.body.message]).toEqual([402, expect.stringContaining('Start')])
    await change({ plan: 'start', suspended: true })
    expect((await issue(deploy, project)).status).toBe(402)
    // P04: ending a link is always possible
    await change({ plan: 'free' })
    expect((await revoke(deploy, project)).body).toEqual({ ok: true })
    await change({ suspended: false })
    await until(url, 404)
  })

  const outcomes: Record<DeployStatus, Record<'preview' | 'activate' | 'purge', number>> = {
    queued: { preview: 409, activate: 409, purge: 409 },
    building: { preview: 409, activate: 409, purge: 409 },
    ready: { preview: 200, activate: 200, purge: 200 },
    active: { preview: 409, activate: 200, purge: 409 },
    failed: { preview: 409, activate: 409, purge: 200 },
    superseded: { preview: 200, activate: 200, purge: 200 },
  }
  const paths = { preview: ['POST', '/preview'], activate: ['POST', '/activate'], purge: ['DELETE', ''] } as const
  test.each(Object.keys(outcomes) as DeployStatus[])('P03 P04 X02 X03 X04 X05 X07 X08: a deploy that is %s', async (status) => {
    for (const action of ['preview', 'activate', 'purge'] as const) {
      const deploy = await unpublished()
      await w.db.updateTable('deploys').set({ status }).where('id', '=', deploy.id).execute()
      const [method, path] = paths[action]
      const answer = await call(method, `deploys/${deploy.id}${path}`)
      expect([action, answer.status]).toEqual([action, outcomes[status][action]])
      if (answer.status === 409)
        expect(answer.body.message).toContain(status === 'active' && action === 'preview' ? 'live' : status)
      expect((await revoke(deploy)).body).toEqual({ ok: true })
    }
  })

  test('P03 X06: a deploy whose files were deleted, or that has none, is 409', async () => {
    const deploy = await unpublished()
    await call('DELETE', `deploys/${deploy.id}`)
    for (const path of ['preview', 'activate']) {
      const { status, body } = await call('POST', `deploys/${deploy.id}/${path}`)
      expect([status, body.message]).toEqual([409, expect.stringContaining('deleted')])
    }
    const empty = await unpublished()
    await w.db.updateTable('deploys').set({ file_count: 0 }).where('id', '=', empty.id).execute()
    expect((await issue(empty)).status).toBe(409)
  })

  test('P03: a site in the trash gives no new link, and what it had opens no more', async () => {
    const deploy = await unpublished()
    const { url } = (await issue(deploy)).body
    const trashed = { deletion_scheduled_at: new Date() }
    await w.db.updateTable('sites').set(trashed).where('id', '=', deploy.site_id).execute()
    expect((await issue(deploy)).status).toBe(409)
    expect((await revoke(deploy)).status).toBe(200)
    await until(url, 404)
  })
})

describe('the end of a link', () => {
  test(
    'P04: revoking ends it within a second, the deploy stays unpublished, and the next link is another',
    onBusyMachines,
    async () => {
      const deploy = await unpublished()
      const first = (await issue(deploy)).body
      await until(first.url, 200)
      expect((await revoke(deploy)).body).toEqual({ ok: true })
      await until(first.url, 404, withinASecond)
      expect(await get(deploy)).toMatchObject({ status: 'ready', is_preview: true, preview_url: null, activated_at: null })
      expect((await revoke(deploy)).body).toEqual({ ok: true })
      const second = (await issue(deploy)).body
      expect(second.token).not.toBe(first.token)
      expect((await w.open(second.url)).status).toBe(200)
      expect((await w.open(first.url)).status).toBe(404)
    },
  )

  test('X02 X03: activation ends it within a second, also that of a rollback', onBusyMachines, async () => {
    const deploy = await unpublished('shown, then live')
    const first = (await issue(deploy)).body
    await until(first.url, 200)
    const { status, body } = await call('POST', `deploys/${deploy.id}/activate`)
    expect([status, body]).toEqual([
      200,
      expect.objectContaining({ status: 'active', is_preview: false, preview_url: null, ok: true }),
    ])
    await until(first.url, 404, withinASecond)

    const next = await deployFiles(w, owner, deploy.site_id, [page('newer')])
    const again = (await issue(deploy)).body
    expect(again.token).not.toBe(first.token)
    await until(again.url, 200)
    const back = await call('POST', `deploys/${deploy.id}/activate`)
    expect(back.body).toMatchObject({ status: 'active', previous_deploy_id: next.id, preview_url: null })
    await until(again.url, 404, withinASecond)
    expect((await get(next)).status).toBe('superseded')
  })

  test('X07: deleting the files ends it within a second', onBusyMachines, async () => {
    const deploy = await unpublished()
    const { url } = (await issue(deploy)).body
    await until(url, 200)
    expect((await call('DELETE', `deploys/${deploy.id}`)).status).toBe(200)
    await until(url, 404, withinASecond)
    expect(await get(deploy)).toMatchObject({ artifacts_purged: true, preview_url: null, status: 'ready' })
  })

  test('X02 X08 P04: at once issued, revoked, activated and deleted, a deploy ends in a state of the table', async () => {
    const site = await makeSite(w, owner)
    const seen = new Set<number>()
    for (let round = 0; round < 8; round++) {
      const [a, b] = await Promise.all([1, 2].map((n) => deployFiles(w, owner, site.id, [page(`${round} ${n}`)], false)))
      const actions = [a, b].flatMap((deploy) => [
        issue(deploy),
        call('POST', `deploys/${deploy.id}/activate`),
        revoke(deploy),
        issue(deploy),
        call('DELETE', `deploys/${deploy.id}`),
      ])
      for (const { status } of await Promise.all(actions)) seen.add(status)
      for (const deploy of await Promise.all([get(a), get(b)])) {
        if (deploy.status === 'active' || deploy.artifacts_purged) expect(deploy.preview_url).toBeNull()
        expect([deploy.status, deploy.artifacts_purged]).not.toEqual(['active', true])
      }
    }
    expect([...seen].sort()).toEqual([200, 409])
  })
})
