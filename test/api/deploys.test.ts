import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { maxDeployFilesBodyBytes } from '../../core/limits.ts'
import { defaultPlans } from '../../core/plans.ts'
import { addBuildMinutes } from '../../services/projects/usage.ts'
import { deployFiles, insertBlobs, makeSite, page } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

const MB = 1024 * 1024
let w: World
let owner: TestProject
let site: any
beforeAll(async () => {
  w = await world({ plans: { ...defaultPlans, free: { ...defaultPlans.free, deploys_per_hour: 3, storage_bytes: 2 * MB } } })
  owner = await w.project('enterprise')
  site = await makeSite(w, owner)
})
afterAll(() => w[Symbol.asyncDispose]())

const send = (json: unknown, project = owner, siteId = site.id) =>
  w.call(`POST /api/v1/sites/${siteId}/deploy-files`, { key: project.key, json })
const get = (path: string, project = owner) => w.call(`GET /api/v1/${path}`, { key: project.key })
const usage = async (project: TestProject) =>
  (await w.call(`GET /operator/v1/projects/${project.id}`, { key: operatorToken })).body.usage

test('D05 D11 X01 B05: files are accepted as queued and go live by themselves, without build minutes', async () => {
  const { status, body } = await send({ files: [page('hello')] })
  expect([status, body]).toEqual([
    200,
    expect.objectContaining({
      site_id: site.id,
      status: 'queued',
      source_kind: 'files',
      build_mode: 'copy',
      activate: true,
      is_preview: false,
    }),
  ])
  const live = await w.ended(body.id, owner.key)
  expect(live).toMatchObject({ status: 'active', file_count: 1, error: null, build_seconds: null, artifacts_purged: false })
  expect([live.started_at, live.finished_at, live.activated_at].every((time) => typeof time === 'string')).toBe(true)
  expect((await get(`sites/${site.id}`)).body.active_deploy_id).toBe(body.id)
  expect((await usage(owner)).build_minutes_this_month).toBe(0)
})

test('D06 D11: binary files keep every byte, and the manifest tells path and hash, sorted', async () => {
  const bytes = Buffer.from([0, 1, 2, 253, 254, 255])
  const files = [page('x'), { path: '/img/a.png', content: bytes.toString('base64'), encoding: 'base64' }]
  await deployFiles(w, owner, site.id, files)
  const { body } = await get(`sites/${site.id}/manifest`)
  expect(body.map((entry: { path: string }) => entry.path)).toEqual(['img/a.png', 'index.html'])
  const stored = await w.cas.open(body[0].sha256)
  expect(await stored?.bytes()).toEqual(bytes)
})

test('D06 D10: long files keep every byte, as text with escapes and as base64 with line breaks', async () => {
  const bytes = Buffer.from(Array.from({ length: 300_001 }, (_, i) => (i * i) % 251))
  const text = 'é "quoted" \\ 🦫\n'.repeat(20_000)
  const base64 = bytes.toString('base64').replaceAll(/(.{76})/g, '$1\n')
  const files = [page('x'), { path: 'a.bin', content: base64, encoding: 'base64' }, { path: 'b.txt', content: text }]
  expect((await deployFiles(w, owner, site.id, files)).total_bytes).toBe(
    page('x').content.length + bytes.length + Buffer.byteLength(text),
  )
  const { body } = await get(`sites/${site.id}/manifest`)
  for (const [index, expected] of [bytes, Buffer.from(text)].entries()) {
    expect((await (await w.cas.open(body[index].sha256))?.bytes())?.equals(expected)).toBe(true)
  }
})

test('D07: a file can be referenced by its hash, but only if the project has it', async () => {
  await deployFiles(w, owner, site.id, [page('referenced')])
  const [{ sha256 }] = (await get(`sites/${site.id}/manifest`)).body
  const next = await deployFiles(w, owner, site.id, [page('new'), { path: 'old.html', sha256 }])
  expect(next).toMatchObject({ status: 'active', file_count: 2 })
  const stranger = await w.project('enterprise')
  const foreign = await makeSite(w, stranger)
  const refused = await send({ files: [page('x'), { path: 'old.html', sha256 }] }, stranger, foreign.id)
  const unknown = await send({ files: [page('x'), { path: 'old.html', sha256: 'a'.repeat(64) }] }, stranger, foreign.id)
  expect([refused.status, refused.body.message.replace(sha256, '')]).toEqual([
    400,
    unknown.body.message.replace('a'.repeat(64), ''),
  ])
})

test('D10 O05: a blob of 50 MB can be referenced, a larger one not', async () => {
  const project = await w.project('enterprise')
  const { id } = await makeSite(w, project)
  const blob = (sha256: string, size: number) => ({ sha256, size, deploys: 1, staged: false })
  const [fits, exceeds] = ['a'.repeat(64), 'b'.repeat(64)]
  await insertBlobs(w, project, [blob(fits, 50 * MB), blob(exceeds, 50 * MB + 1)])
  expect((await send({ files: [page('x'), { path: 'a', sha256: fits }] }, project, id)).status).toBe(200)
  expect((await send({ files: [page('x'), { path: 'a', sha256: exceeds }] }, project, id)).status).toBe(400)
})

test('D09: the list is the full set, so a file that is left out is gone', async () => {
  await deployFiles(w, owner, site.id, [page('one'), { path: 'two.html', content: 'two' }])
  await deployFiles(w, owner, site.id, [page('one')])
  expect((await get(`sites/${site.id}/manifest`)).body).toHaveLength(1)
})

test('V13 V14: service files are left out and named', async () => {
  const files = [page('x'), '__svc/login', '.git/config', 'a/.env.local', '.well-known/security.txt'].map((file) =>
    typeof file === 'string' ? { path: file, content: 'x' } : file,
  )
  const deploy = await deployFiles(w, owner, site.id, files)
  expect(deploy).toMatchObject({ file_count: 2, skipped_paths: ['__svc/login', '.git/config', 'a/.env.local'] })
})

test.each([
  ['D08', 'no index.html at the root', { files: [{ path: 'a/index.html', content: '' }] }, 400],
  ['D08', 'a package.json', { files: [page('x'), { path: 'package.json', content: '{}' }] }, 400],
  [
    'D08',
    '2001 files',
    { files: [page('x'), ...Array.from({ length: 2000 }, (_, i) => ({ path: `${i}.txt`, content: '' }))] },
    400,
  ],
  ['D08', 'no file', { files: [] }, 400],
  ['D05', 'a path that climbs', { files: [page('x'), { path: '../x', content: '' }] }, 400],
  ['D05', 'a path with a backslash', { files: [page('x'), { path: 'a\\b', content: '' }] }, 400],
  ['D05', 'a path twice', { files: [page('x'), { path: '/index.html', content: '' }] }, 400],
  [
    'D05',
    'a path twice in two normal forms',
    { files: [page('x'), { path: '\u00e9', content: '' }, { path: 'e\u0301', content: '' }] },
    400,
  ],
  ['D05', 'a file that is a folder too', { files: [page('x'), { path: 'a', content: '' }, { path: 'a/b', content: '' }] }, 400],
  ['D05', 'no path', { files: [page('x'), { content: '' }] }, 400],
  ['D06', 'broken base64', { files: [page('x'), { path: 'a', content: '%%%%', encoding: 'base64' }] }, 400],
  ['D06', 'long broken base64', { files: [page('x'), { path: 'a', content: 'A'.repeat(20_001), encoding: 'base64' }] }, 400],
  [
    'D06',
    'long base64 with something behind its end',
    { files: [page('x'), { path: 'a', content: `${'A'.repeat(20_002)}==AA`, encoding: 'base64' }] },
    400,
  ],
  ['D06', 'half a character in a long text', { files: [page('x'), { path: 'a', content: `${'x'.repeat(20_000)}\ud83d` }] }, 400],
  ['D05', 'a path of 20 KB', { files: [page('x'), { path: 'x'.repeat(20_000), content: '' }] }, 400],
  ['D06', 'an unknown encoding', { files: [page('x'), { path: 'a', content: '', encoding: 'hex' }] }, 422],
  ['D07', 'a hash that is none', { files: [page('x'), { path: 'a', sha256: 'xyz' }] }, 400],
  ['D05', 'content and hash', { files: [page('x'), { path: 'a', content: '', sha256: 'a'.repeat(64) }] }, 422],
  ['D05', 'neither content nor hash', { files: [page('x'), { path: 'a' }] }, 422],
  ['D05', 'no list', { activate: true }, 422],
  ['D05', 'activate as text', { files: [page('x')], activate: 'yes' }, 422],
])('%s: %s is refused', async (_row, _what, json, expected) => {
  const before = (await get(`sites/${site.id}/deploys`)).body.length
  const { status, body } = await send(json)
  expect([status, Object.keys(body)]).toEqual([expected, ['message']])
  expect((await get(`sites/${site.id}/deploys`)).body).toHaveLength(before)
})

test('D10 O05: a body of exactly 50 MB is read, one byte more is refused with 413', async () => {
  const frame = JSON.stringify({ files: [{ path: 'index.html', content: '' }] }).length
  const body = (size: number) =>
    Buffer.from(JSON.stringify({ files: [{ path: 'index.html', content: 'x'.repeat(size - frame) }] }))
  const post = (bytes: Buffer) =>
    w.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: owner.key, bytes, type: 'application/json' })
  expect((await post(body(maxDeployFilesBodyBytes))).status).toBe(200)
  expect((await post(body(maxDeployFilesBodyBytes + 1))).status).toBe(413)
})

test('D12: parallel requests wait for each other and are all accepted', async () => {
  const answers = await Promise.all([1, 2, 3, 4, 5].map((n) => send({ files: [page(`parallel ${n}`)] })))
  expect(answers.map((answer) => answer.status)).toEqual([200, 200, 200, 200, 200])
  for (const { body } of answers) await w.ended(body.id, owner.key)
  const [newest] = (await get(`sites/${site.id}/deploys?limit=1`)).body
  expect(newest.status).toBe('active')
})

describe('gates', () => {
  test('D13 D04 Z03: the storage quota is refused with 409, and a purge frees it', async () => {
    const project = await w.project('free')
    const { id } = await makeSite(w, project)
    const big = (letter: string) => [page('x'), { path: 'big.txt', content: letter.repeat(1.2 * MB) }]
    const first = await deployFiles(w, project, id, big('a'))
    const refused = await send({ files: big('b') }, project, id)
    expect([refused.status, refused.body.message]).toEqual([409, expect.stringContaining('Free')])
    await deployFiles(w, project, id, [page('small')])
    expect((await usage(project)).storage_bytes).toBeGreaterThan(1.2 * MB)
    expect((await w.call(`DELETE /api/v1/deploys/${first.id}`, { key: project.key })).body).toEqual({ ok: true })
    expect((await usage(project)).storage_bytes).toBeLessThan(1000)
  })

  test('D13 D04 Z03: the deploy rate is refused with 429 and Retry-After, exactly at the limit, for an hour', async () => {
    const project = await w.project('free')
    const { id } = await makeSite(w, project)
    const answers = await Promise.all([1, 2, 3, 4, 5].map((n) => send({ files: [page(`${n}`)] }, project, id)))
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, 200, 200, 429, 429])
    const refused = answers.find((answer) => answer.status === 429)
    expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(3500)
    w.advance(3_601_000)
    expect((await send({ files: [page('later')] }, project, id)).status).toBe(200)
  })

  test('D13 D04 Z03: used-up build minutes are refused with 429', async () => {
    const project = await w.project('free')
    const { id } = await makeSite(w, project)
    await addBuildMinutes(w.db, project.id, new Date(), 100)
    expect((await send({ files: [page('x')] }, project, id)).status).toBe(429)
  })

  test('D13 D04 Z05: a suspended project is refused with 402', async () => {
    const project = await w.project('start')
    const { id } = await makeSite(w, project)
    const deploy = await deployFiles(w, project, id, [page('x')])
    await w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json: { suspended: true } })
    expect((await send({ files: [page('x')] }, project, id)).status).toBe(402)
    expect((await w.call(`POST /api/v1/deploys/${deploy.id}/activate`, { key: project.key })).status).toBe(402)
  })

  test.each(['free', 'start'] as const)('D03 D13: building without publishing on the %s plan', async (plan) => {
    const project = await w.project(plan)
    const { id } = await makeSite(w, project)
    const { status, body } = await send({ files: [page('x')], activate: false }, project, id)
    if (plan === 'free') return expect([status, body.message]).toEqual([402, expect.stringContaining('Start')])
    expect(await w.ended(body.id, project.key)).toMatchObject({ status: 'ready', is_preview: true, activate: false })
    expect((await get(`sites/${id}`, project)).body.active_deploy_id).toBeNull()
  })
})

describe('archives', () => {
  const post = (bytes: Uint8Array, type = 'application/gzip', query = '') =>
    w.call(`POST /api/v1/sites/${site.id}/deploys${query}`, { key: owner.key, bytes, type })
  const zipEnd = Buffer.from('504b0506000000000000000000000000000000000000', 'hex')

  test.each([
    ['gzip', 'application/gzip'],
    ['gzip', 'application/zip'],
    ['gzip', 'application/octet-stream'],
    ['zip', 'application/zip'],
    ['zip', 'application/gzip'],
    ['zip', 'application/octet-stream'],
  ])('D01: a %s sent as %s is accepted as queued', async (format, type) => {
    const { status, body } = await post(format === 'zip' ? zipEnd : gzipSync('tar'), type)
    expect([status, body.status, body.source_kind, body.build_mode]).toEqual([200, 'queued', 'archive', null])
  })

  test.each([
    ['empty', Buffer.alloc(0)],
    ['short', Buffer.from('PK')],
    ['text', Buffer.from('<!doctype html>')],
  ])('D02: a body that is %s is refused with 400', async (_what, bytes) => {
    expect((await post(bytes)).status).toBe(400)
  })

  test('D02 O05: 50 MB are accepted, one byte more is refused with 400', async () => {
    const bytes = Buffer.alloc(50 * MB + 1)
    gzipSync('tar').copy(bytes)
    expect((await post(bytes.subarray(0, 50 * MB))).status).toBe(200)
    expect((await post(bytes)).status).toBe(400)
  })

  test('D01 C04: another media type is refused with 415', async () => {
    expect((await post(gzipSync('tar'), 'text/plain')).status).toBe(415)
  })

  test('D03: activate=false in the query makes a preview; another value is refused', async () => {
    expect((await post(gzipSync('tar'), 'application/gzip', '?activate=false')).body).toMatchObject({
      activate: false,
      is_preview: true,
    })
    expect((await post(gzipSync('tar'), 'application/gzip', '?activate=maybe')).status).toBe(422)
  })

  test('J04: deploy_site takes the archive in base64', async () => {
    const source_base64 = gzipSync('tar').toString('base64')
    const { structuredContent } = await w.tool('deploy_site', { site_id: site.id, source_base64 }, owner.key)
    expect(structuredContent).toMatchObject({ status: 'queued', source_kind: 'archive' })
    const broken = await w.tool('deploy_site', { site_id: site.id, source_base64: '%%' }, owner.key)
    expect([broken.isError, broken.structuredContent.status]).toEqual([true, 400])
  })

  test('X05 X08: a deploy that is queued can be neither activated nor deleted', async () => {
    const { body } = await post(gzipSync('tar'))
    expect((await w.call(`POST /api/v1/deploys/${body.id}/activate`, { key: owner.key })).status).toBe(409)
    expect((await w.call(`DELETE /api/v1/deploys/${body.id}`, { key: owner.key })).status).toBe(409)
  })
})

describe('history', () => {
  const activate = (id: string) => w.call(`POST /api/v1/deploys/${id}/activate`, { key: owner.key })

  test('X03 X04 X10: a rollback makes the old deploy live and supersedes the newer one', async () => {
    const { id } = await makeSite(w, owner)
    const one = await deployFiles(w, owner, id, [page('one')])
    const two = await deployFiles(w, owner, id, [page('two')])
    expect((await get(`deploys/${one.id}`)).body.status).toBe('superseded')
    const { status, body } = await activate(one.id)
    expect([status, body]).toEqual([
      200,
      expect.objectContaining({ id: one.id, status: 'active', ok: true, previous_deploy_id: two.id }),
    ])
    expect((await get(`deploys/${two.id}`)).body.status).toBe('superseded')
    expect((await activate(one.id)).body).toMatchObject({ status: 'active', previous_deploy_id: null })
    expect((await get(`sites/${id}`)).body.active_deploy_id).toBe(one.id)
  })

  test('X02: activating a ready deploy clears is_preview', async () => {
    const { id } = await makeSite(w, owner)
    const ready = await deployFiles(w, owner, id, [page('preview')], false)
    expect([ready.status, ready.is_preview]).toEqual(['ready', true])
    expect((await activate(ready.id)).body).toMatchObject({ status: 'active', is_preview: false })
  })

  test('X06 X07 X08: deleting takes the files of a deploy that is not live, keeps its record, and forbids its activation', async () => {
    const { id } = await makeSite(w, owner)
    const one = await deployFiles(w, owner, id, [page('one')])
    const two = await deployFiles(w, owner, id, [page('two')])
    const remove = (deploy: string) => w.call(`DELETE /api/v1/deploys/${deploy}`, { key: owner.key })
    expect((await remove(two.id)).status).toBe(409)
    expect((await remove(one.id)).body).toEqual({ ok: true })
    expect((await remove(one.id)).body).toEqual({ ok: true })
    expect((await get(`deploys/${one.id}`)).body).toMatchObject({ status: 'superseded', artifacts_purged: true })
    expect((await activate(one.id)).status).toBe(409)
    expect((await get(`sites/${id}/deploys`)).body.map((deploy: { id: string }) => deploy.id)).toEqual([two.id, one.id])
  })

  test('X08: while the storage does not answer nothing is deleted, and the answer is 503', async () => {
    const { id } = await makeSite(w, owner)
    const one = await deployFiles(w, owner, id, [page('one')])
    await deployFiles(w, owner, id, [page('two')])
    const away = { manifest_sha256: 'c'.repeat(64) }
    await w.db.updateTable('deploys').set(away).where('id', '=', one.id).execute()
    expect((await w.call(`DELETE /api/v1/deploys/${one.id}`, { key: owner.key })).status).toBe(503)
    expect((await get(`deploys/${one.id}`)).body.artifacts_purged).toBe(false)
  })

  test('D24 E6: deploys are listed newest first, in pages by limit and before', async () => {
    const { id } = await makeSite(w, owner)
    const made = []
    for (const text of ['a', 'b', 'c']) made.unshift((await deployFiles(w, owner, id, [page(text)])).id)
    const ids = async (query: string) =>
      (await get(`sites/${id}/deploys${query}`)).body.map((deploy: { id: string }) => deploy.id)
    expect(await ids('')).toEqual(made)
    expect(await ids('?limit=2')).toEqual(made.slice(0, 2))
    expect(await ids(`?before=${made[0]}&limit=1`)).toEqual([made[1]])
    expect((await get(`sites/${id}/deploys?limit=0`)).status).toBe(422)
    expect((await get(`sites/${id}/deploys?limit=201`)).status).toBe(422)
  })

  test('D11: the same file is stored and counted once', async () => {
    const project = await w.project('start')
    const { id } = await makeSite(w, project)
    await deployFiles(w, project, id, [page('x'), { path: 'a.txt', content: 'same' }, { path: 'b.txt', content: 'same' }])
    const before = (await usage(project)).storage_bytes
    expect(before).toBe(page('x').content.length + 4)
    await deployFiles(w, project, id, [page('x'), { path: 'c.txt', content: 'same' }])
    expect((await usage(project)).storage_bytes).toBe(before)
  })
})
