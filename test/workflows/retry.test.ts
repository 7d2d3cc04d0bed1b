import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { defaultPlans } from '../../core/plans.ts'
import { applyRetentionEverywhere } from '../../services/deploys/retention.ts'
import { purgeSite } from '../../services/removal/purge-site.ts'
import { removeAbandonedUploads } from '../../services/storage/sweep.ts'
import { tarGz } from '../infra/archives.ts'
import { type GitServer, startGitServer } from '../infra/git-server.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

vi.setConfig({ testTimeout: 120_000 })
const MB = 1024 * 1024
const dayMs = 24 * 3_600_000

const stack = new AsyncDisposableStack()
let w: World
let server: GitServer
let owner: TestProject
beforeAll(async () => {
  server = stack.use(await startGitServer())
  const plans = { ...defaultPlans, free: { ...defaultPlans.free, storage_bytes: 4 * MB, deploys_per_hour: 4 } }
  w = stack.use(await world({ runner: true, plans, env: { PLINTH_ALLOW_PRIVATE_GIT: 'true' } }))
  owner = await w.project('enterprise')
})
afterAll(() => stack.disposeAsync())

const call = (endpoint: string, json?: object, project = owner) => w.call(endpoint, { key: project.key, json })
const retry = (id: string, project = owner) => call(`POST /api/v1/deploys/${id}/retry`, undefined, project)
const usedBytes = async (project: TestProject) =>
  (await w.call(`GET /operator/v1/projects/${project.id}`, { key: operatorToken })).body.usage.storage_bytes
const isStored = async (sha256: string) => {
  await removeAbandonedUploads(w, new Date())
  return (await w.cas.stat(sha256)) !== undefined
}
const rowOf = (id: string) => w.db.selectFrom('deploys').selectAll().where('id', '=', id).executeTakeFirstOrThrow()

async function send(siteId: string, tree: Record<string, string>, { project = owner, query = '' } = {}): Promise<any> {
  const bytes = tarGz(Object.entries(tree).map(([name, data]) => ({ name, data })))
  const request = `POST /api/v1/sites/${siteId}/deploys${query}`
  const { body } = await w.call(request, { key: project.key, bytes, type: 'application/gzip' })
  return await w.ended(body.id, project.key)
}
/** Has no index.html. */
const wrong = (text = 'x') => ({ 'readme.txt': text })
const noise = (megabytes: number) => randomBytes(megabytes * MB).toString('latin1')

describe('E31: an archive whose deploy has failed', () => {
  test('is deployed again as a new deploy with the same title and the same wish to go live', async () => {
    const { id } = await makeSite(w, owner)
    const failed = await send(id, wrong(), { query: '?title=Prices&activate=false' })
    expect([failed.status, failed.number]).toEqual(['failed', 1])
    const { status, body } = await retry(failed.id)
    expect([status, body]).toEqual([
      200,
      expect.objectContaining({ number: 2, title: 'Prices', activate: false, status: 'queued', source_kind: 'archive' }),
    ])
    const again = await w.ended(body.id, owner.key)
    expect([again.status, again.error]).toEqual(['failed', failed.error])
  })

  test('counts as storage until its files are deleted, and then cannot be deployed again', async () => {
    const project = await w.project('enterprise')
    const { id } = await makeSite(w, project)
    const failed = await send(id, wrong(noise(1)), { project })
    expect(await usedBytes(project)).toBeGreaterThan(MB)
    const { source_sha256 } = await rowOf(failed.id)
    expect((await call(`DELETE /api/v1/deploys/${failed.id}`, undefined, project)).body).toEqual({ ok: true })
    expect([await usedBytes(project), await isStored(source_sha256 ?? '')]).toEqual([0, false])
    const { status, body } = await retry(failed.id, project)
    expect([status, body.message]).toEqual([409, expect.stringContaining('send it again')])
  })

  test('is kept for the newest three of a site', async () => {
    const { id } = await makeSite(w, owner)
    const failed = [
      await send(id, wrong('1')),
      await send(id, wrong('2')),
      await send(id, wrong('3')),
      await send(id, wrong('4')),
    ]
    await expect.poll(async () => (await retry(failed[0].id)).status).toBe(409)
    expect((await retry(failed[1].id)).status).toBe(200)
  })

  test('is kept for 7 days', async () => {
    const { id } = await makeSite(w, owner)
    const [old, young] = [await send(id, wrong('old')), await send(id, wrong('young'))]
    const finished_at = new Date(Date.now() - 7 * dayMs - 1000)
    await w.db.updateTable('deploys').set({ finished_at }).where('id', '=', old.id).execute()
    const { source_sha256 } = await rowOf(old.id)
    await applyRetentionEverywhere(w)
    expect([(await retry(old.id)).status, await isStored(source_sha256 ?? '')]).toEqual([409, false])
    expect((await retry(young.id)).status).toBe(200)
  })

  test('makes room for what is sent later, the oldest first', async () => {
    const project = await w.project('free')
    const [one, two] = [await makeSite(w, project), await makeSite(w, project)]
    const first = await send(one.id, wrong(noise(1.5)), { project })
    const second = await send(two.id, wrong(noise(1.5)), { project })
    const live = await send(one.id, { 'index.html': noise(1) }, { project })
    expect(live.status).toBe('active')
    expect([(await rowOf(first.id)).artifacts_purged, (await rowOf(second.id)).artifacts_purged]).toEqual([true, false])
    expect(await usedBytes(project)).toBeLessThan(4 * MB)
  })

  test('is removed with its site, and frees its storage', async () => {
    const project = await w.project('enterprise')
    const { id } = await makeSite(w, project)
    const sources: string[] = []
    for (const text of [noise(0.5), noise(0.5)])
      sources.push((await rowOf((await send(id, wrong(text), { project })).id)).source_sha256 ?? '')
    expect(await usedBytes(project)).toBeGreaterThan(MB)
    const { deletion_scheduled_at } = (await call(`DELETE /api/v1/sites/${id}`, undefined, project)).body
    expect(await isStored(sources[0] ?? '')).toBe(true)
    const purge_at = new Date(deletion_scheduled_at)
    expect(await purgeSite({ ...w, clock: () => purge_at }, { site_id: id, purge_at }, () => undefined)).toBe('purged')
    expect(await usedBytes(project)).toBe(0)
    for (const sha256 of sources) expect(await isStored(sha256)).toBe(false)
  })

  test('is not there for a deploy that succeeded', async () => {
    const live = await send((await makeSite(w, owner)).id, { 'index.html': 'x' })
    const { status, body } = await retry(live.id)
    expect([status, body.message]).toEqual([409, expect.stringContaining('is gone')])
  })
})

describe('E31: files and manifests', () => {
  test('are deployed again as long as they are kept, and go live', async () => {
    const { id } = await makeSite(w, owner)
    const first = await deployFiles(w, owner, id, [page('first'), { path: 'a.txt', content: 'a' }])
    await deployFiles(w, owner, id, [page('second')])
    const { status, body } = await retry(first.id)
    expect([status, body]).toEqual([200, expect.objectContaining({ number: 3, file_count: 2, source_kind: 'files' })])
    const again = await w.ended(body.id, owner.key)
    expect([again.status, again.total_bytes]).toEqual(['active', first.total_bytes])
    // each deploy counts its blobs
    expect((await call(`DELETE /api/v1/deploys/${first.id}`)).status).toBe(200)
    const files = (await call(`GET /api/v1/deploys/${again.id}/files`)).body
    expect(files.map((file: any) => file.path)).toEqual(['a.txt', 'index.html'])
    expect(await isStored(files[0].sha256)).toBe(true)
    expect((await retry(first.id)).body.message).toContain('were deleted')
  })
})

describe('E31: a git deploy', () => {
  async function connected() {
    const site = await makeSite(w, owner)
    const repository = server.repository(`r-${site.id}`)
    await call(`PUT /api/v1/sites/${site.id}/git`, { repo_url: `${server.origin}/r-${site.id}.git` })
    const deployed = async () => await w.ended((await call(`POST /api/v1/sites/${site.id}/git/deploy`)).body.id, owner.key)
    return { site, repository, deployed }
  }

  test('is deployed again from the same commit, whatever the branch is at', async () => {
    const { site, repository, deployed } = await connected()
    const commit = repository.pushFiles({ 'index.html': 'first' }, { message: 'First' })
    const first = await deployed()
    repository.pushFiles({ 'index.html': 'second' })
    expect((await deployed()).git.commit).not.toBe(commit)
    const { status, body } = await retry(first.id)
    expect([status, body]).toEqual([200, expect.objectContaining({ number: 3, title: 'First', source_kind: 'git' })])
    const again = await w.ended(body.id, owner.key)
    expect([again.status, again.git]).toEqual(['active', first.git])
    const log = (await call(`GET /api/v1/deploys/${again.id}/logs`)).body.text
    expect(log).toContain(`fetching commit ${commit.slice(0, 7)} of`)
    expect((await call(`GET /api/v1/sites/${site.id}`)).body.active_deploy_id).toBe(again.id)
  })

  test('is not joined by a push while it waits', async () => {
    const { site, repository, deployed } = await connected()
    const commit = repository.pushFiles({ 'index.html': 'first' })
    const first = await deployed()
    const next = repository.pushFiles({ 'index.html': 'second' })
    const [retried, pushed] = [(await retry(first.id)).body, (await call(`POST /api/v1/sites/${site.id}/git/deploy`)).body]
    expect(pushed.id).not.toBe(retried.id)
    const ended = [await w.ended(retried.id, owner.key), await w.ended(pushed.id, owner.key)]
    expect(ended.map((deploy) => deploy.git.commit)).toEqual([commit, next])
  })

  test('is refused when the repository was disconnected', async () => {
    const { site, repository, deployed } = await connected()
    repository.pushFiles({ 'index.html': 'x' })
    const first = await deployed()
    await call(`DELETE /api/v1/sites/${site.id}/git`)
    const { status, body } = await retry(first.id)
    expect([status, body.message]).toEqual([409, expect.stringContaining('not connected')])
  })
})

describe('E31: a retry', () => {
  test('is refused with 409 while the deploy has not ended', async () => {
    const { id } = await makeSite(w, owner)
    const bytes = tarGz([{ name: 'package.json', data: JSON.stringify({ scripts: { build: 'sleep 60' } }) }])
    const { body } = await w.call(`POST /api/v1/sites/${id}/deploys`, { key: owner.key, bytes, type: 'application/gzip' })
    expect((await retry(body.id)).status).toBe(409)
    await call(`POST /api/v1/deploys/${body.id}/cancel`)
    expect((await retry(body.id)).status).toBe(200)
    for (const deploy of (await call(`GET /api/v1/sites/${id}/deploys`)).body)
      await call(`POST /api/v1/deploys/${deploy.id}/cancel`)
  })

  test('counts as a deploy: rates and suspension apply, and the trash refuses', async () => {
    const project = await w.project('free')
    const { id } = await makeSite(w, project)
    const first = await deployFiles(w, project, id, [page('x')])
    await call(`DELETE /api/v1/sites/${id}`, undefined, project)
    expect((await retry(first.id, project)).status).toBe(409)
    await call(`POST /api/v1/sites/${id}/restore`, undefined, project)
    const patch = (suspended: boolean) =>
      w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json: { suspended } })
    await patch(true)
    expect((await retry(first.id, project)).status).toBe(402)
    await patch(false)
    const answers = [await retry(first.id, project), await retry(first.id, project), await retry(first.id, project)]
    expect([...answers, await retry(first.id, project)].map(({ status }) => status)).toEqual([200, 200, 200, 429])
  })
})
