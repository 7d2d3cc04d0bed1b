import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { tarGz } from '../infra/archives.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

let w: World
let owner: TestProject
let site: any
beforeAll(async () => {
  w = await world({ fetcher: false, env: { PLINTH_BUILD_SLOTS: '3', PLINTH_BUILDS_PER_PROJECT: '2' } })
  owner = await w.project('enterprise')
  site = await makeSite(w, owner)
})
afterAll(() => w[Symbol.asyncDispose]())

const get = async (path: string) => (await w.call(`GET /api/v1/${path}`, { key: owner.key })).body
const archive = tarGz([{ name: 'index.html', data: 'x' }])
const sendArchive = (siteId: string, query = '') =>
  w.call(`POST /api/v1/sites/${siteId}/deploys${query}`, { key: owner.key, bytes: archive, type: 'application/gzip' })
const sendFiles = (json: object) => w.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: owner.key, json })

describe('E31: number', () => {
  test('counts the deploys of each site from 1', async () => {
    const { id } = await makeSite(w, owner)
    const numbers = [await deployFiles(w, owner, id, [page('a')]), await deployFiles(w, owner, id, [page('b')])]
    expect(numbers.map((deploy) => deploy.number)).toEqual([1, 2])
  })
})

describe('E31: title', () => {
  test('an archive takes it from the query', async () => {
    const { body } = await sendArchive((await makeSite(w, owner)).id, `?title=${encodeURIComponent('New prices, 50 % off 🦫')}`)
    expect(body.title).toBe('New prices, 50 % off 🦫')
    expect((await get(`deploys/${body.id}`)).title).toBe('New prices, 50 % off 🦫')
  })

  test('files and manifests take it from the body', async () => {
    expect((await sendFiles({ files: [page('x')], title: 'From files' })).body.title).toBe('From files')
    const sha256 = createHash('sha256').update(page('x').content).digest('hex')
    const json = { files: [{ path: 'index.html', sha256 }], title: 'From a manifest' }
    const { body } = await w.call(`POST /api/v1/sites/${site.id}/deploys/manifest`, { key: owner.key, json })
    expect(body.title).toBe('From a manifest')
  })

  test('is null when none was sent', async () => expect((await sendFiles({ files: [page('x')] })).body.title).toBeNull())

  test('of a git deploy is the first line of its commit message', async () => {
    const { body } = await sendFiles({ files: [page('x')] })
    const git = { commit: 'a'.repeat(40), ref: 'main', author: 'Ada', message: `Mend the roof ${'x'.repeat(200)}\n\nmore` }
    await w.db
      .updateTable('deploys')
      .set({ git: JSON.stringify(git) as never })
      .where('id', '=', body.id)
      .execute()
    expect((await get(`deploys/${body.id}`)).title).toBe(`Mend the roof ${'x'.repeat(106)}`)
  })

  test.each([
    ['121 characters', 'x'.repeat(121), 'title must have at most 120 characters'],
    ['two lines', 'one\ntwo', 'title must be one line without control characters'],
    ['a terminal sequence', 'a\u001b[31m', 'title must be one line without control characters'],
  ])('%s are refused', async (_what, title, message) => {
    const { status, body } = await sendFiles({ files: [page('x')], title })
    expect([status, body.message]).toEqual([422, message])
  })
})

describe('E31: waiting_for', () => {
  test('says what a queued deploy waits for, and is null for others', async () => {
    const project = await w.project('enterprise')
    const sites = [await makeSite(w, project), await makeSite(w, project), await makeSite(w, project)]
    const send = async (siteId: string) => {
      const request = `POST /api/v1/sites/${siteId}/deploys`
      return (await w.call(request, { key: project.key, bytes: archive, type: 'application/gzip' })).body.id as string
    }
    const ids: string[] = []
    for (const { id } of sites) ids.push(await send(id))
    ids.push(await send(sites[0].id))
    const waits = () =>
      Promise.all(ids.map(async (id) => (await w.call(`GET /api/v1/deploys/${id}`, { key: project.key })).body.waiting_for))
    await expect.poll(waits).toEqual(['a build slot', 'a build slot', 'another build of the project', 'deploy 1 of this site'])
    const { body } = await w.call(`GET /api/v1/sites/${sites[0].id}/deploys`, { key: project.key })
    expect(body.map((deploy: any) => deploy.waiting_for)).toEqual(['deploy 1 of this site', 'a build slot'])
    expect((await deployFiles(w, owner, site.id, [page('x')])).waiting_for).toBeNull()
  })
})

describe('E31: list_deploys?status=', () => {
  test('lists the deploys with a status, page by page', async () => {
    const { id } = await makeSite(w, owner)
    for (const text of ['a', 'b', 'c']) await deployFiles(w, owner, id, [page(text)])
    const numbers = async (query: string) => (await get(`sites/${id}/deploys?${query}`)).map((deploy: any) => deploy.number)
    expect(await numbers('status=active')).toEqual([3])
    expect(await numbers('status=superseded&limit=1')).toEqual([2])
    const [{ id: before }] = await get(`sites/${id}/deploys?status=superseded&limit=1`)
    expect(await numbers(`status=superseded&before=${before}`)).toEqual([1])
    expect(await numbers('status=failed')).toEqual([])
  })

  test('refuses a status that does not exist', async () => {
    const { status } = await w.call(`GET /api/v1/sites/${site.id}/deploys?status=lost`, { key: owner.key })
    expect(status).toBe(422)
  })
})

describe('E31: list_deploy_files', () => {
  test('lists path, hash and size of every file, sorted, also of a deploy that is not live', async () => {
    const first = await deployFiles(w, owner, site.id, [page('x'), { path: 'a/b.txt', content: 'four' }])
    await deployFiles(w, owner, site.id, [page('y')])
    const files = await get(`deploys/${first.id}/files`)
    expect(files).toEqual([
      { path: 'a/b.txt', sha256: createHash('sha256').update('four').digest('hex'), size: 4 },
      { path: 'index.html', sha256: expect.stringMatching(/^[0-9a-f]{64}$/), size: page('x').content.length },
    ])
    const { structuredContent } = await w.tool('list_deploy_files', { deploy_id: first.id }, owner.key)
    expect(structuredContent.items).toEqual(files)
  })

  test('answers 409 when the files were deleted, or are not there yet', async () => {
    const { id } = await deployFiles(w, owner, site.id, [page('gone')], false)
    await w.call(`DELETE /api/v1/deploys/${id}`, { key: owner.key })
    const deleted = await w.call(`GET /api/v1/deploys/${id}/files`, { key: owner.key })
    expect([deleted.status, deleted.body.message]).toEqual([409, 'the files of this deploy were deleted; deploy again'])
    const queued = (await sendArchive((await makeSite(w, owner)).id)).body
    const early = await w.call(`GET /api/v1/deploys/${queued.id}/files`, { key: owner.key })
    expect([early.status, early.body.message]).toEqual([409, 'a deploy that is queued has no files yet; wait until it is ready'])
  })
})
