import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { maxBlobBytes, maxManifestBodyBytes, maxManifestEntries, sweepGraceMs } from '../../core/limits.ts'
import { defaultPlans } from '../../core/plans.ts'
import { addBuildMinutes } from '../../services/projects/usage.ts'
import { tarGz } from '../infra/archives.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { type Answer, operatorToken, type TestProject, type World, world } from '../world.ts'

const MB = 1024 * 1024
let w: World
let owner: TestProject
let site: any
beforeAll(async () => {
  const free = { ...defaultPlans.free, deploys_per_hour: 3, storage_bytes: 2 * MB }
  w = await world({ plans: { ...defaultPlans, free }, edge: true })
  owner = await w.project('enterprise')
  site = await makeSite(w, owner)
})
afterAll(() => w?.[Symbol.asyncDispose]())

interface File {
  readonly path: string
  readonly content: string
}

const hashOf = (content: string | Buffer) => createHash('sha256').update(content).digest('hex')
const entry = ({ path, content }: File) => ({ path, sha256: hashOf(content) })
const html = (text: string): File => page(text)

const post = (step: 'check' | 'manifest', json: unknown, project = owner, siteId = site.id) =>
  w.call(`POST /api/v1/sites/${siteId}/deploys/${step}`, { key: project.key, json })
const put = (sha256: string, bytes: Buffer, project = owner, type = 'application/octet-stream') =>
  w.call(`PUT /api/v1/blobs/${sha256}`, { key: project.key, bytes, type })
const putFile = ({ content }: File, project = owner) => put(hashOf(content), Buffer.from(content), project)
const usage = async (project: TestProject) =>
  (await w.call(`GET /operator/v1/projects/${project.id}`, { key: operatorToken })).body.usage
const change = (project: TestProject, json: object) =>
  w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json })

/** All three steps; waits until the deploy has ended. */
async function deployManifest(files: readonly File[], project = owner, siteId = site.id): Promise<any> {
  for (const file of files) await putFile(file, project)
  const { status, body } = await post('manifest', { files: files.map(entry) }, project, siteId)
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`)
  return await w.ended(body.id, project.key)
}

async function inNewProject(plan: Parameters<World['project']>[0]) {
  const project = await w.project(plan)
  return { project, siteId: (await makeSite(w, project)).id as string }
}

const refused = ({ status, body }: Answer, expected: number) =>
  expect([status, Object.keys(body)]).toEqual([expected, ['message']])

test('D15 D17 D19 D22: check, put and manifest publish a site, with and without sizes', async () => {
  const files = [html('three steps'), { path: 'a/app.js', content: 'let a = 1' }]
  const list = { files: files.map((file) => ({ ...entry(file), size: 1 })) }
  expect((await post('check', list)).body).toEqual({ missing: files.map((file) => hashOf(file.content)) })
  for (const file of files) {
    const sha256 = hashOf(file.content)
    expect((await putFile(file)).body).toEqual({ sha256, size: file.content.length, existed: false })
  }
  expect((await post('check', { files: files.map(entry) })).body).toEqual({ missing: [] })
  const { status, body } = await post('manifest', list)
  expect([status, body]).toEqual([
    200,
    expect.objectContaining({ status: 'queued', source_kind: 'manifest', build_mode: 'copy', file_count: 2 }),
  ])
  const bytes = files.reduce((sum, file) => sum + file.content.length, 0)
  expect(await w.ended(body.id, owner.key)).toMatchObject({ status: 'active', total_bytes: bytes, build_seconds: null })
  await expect.poll(async () => (await w.visit(site.subdomain)).body).toContain('three steps')
  expect((await w.visit(site.subdomain, '/a/app.js')).body).toBe('let a = 1')
})

test('D15: missing hashes come once, in the order of the request, and only for what is published', async () => {
  const [a, b, c] = ['a', 'b', 'c'].map((letter) => letter.repeat(64))
  const files = [
    { path: 'b.txt', sha256: b },
    { path: '.env', sha256: c },
    { path: 'a.txt', sha256: a },
    { path: 'again.txt', sha256: b },
  ]
  expect((await post('check', { files })).body).toEqual({ missing: [b, a] })
})

describe.each(['check', 'manifest'] as const)('%s refuses', (step) => {
  const sha256 = 'a'.repeat(64)
  const index = { path: 'index.html', sha256 }
  test.each([
    ['D16', 'no file', { files: [] }, 400],
    ['D16', '2001 files', { files: Array.from({ length: 2001 }, (_, i) => ({ path: `${i}.txt`, sha256 })) }, 400],
    ['D16', 'a short hash', { files: [{ path: 'index.html', sha256: 'a'.repeat(63) }] }, 400],
    ['D16', 'a hash in upper case', { files: [{ path: 'index.html', sha256: 'A'.repeat(64) }] }, 400],
    ['D16', 'a malformed hash of a file that is left out', { files: [index, { path: '.env', sha256: 'x' }] }, 400],
    ['D16', 'no hash', { files: [{ path: 'index.html' }] }, 400],
    ['D16', 'a path that climbs', { files: [index, { path: '../x', sha256 }] }, 400],
    ['D16', 'a path with a backslash', { files: [index, { path: 'a\\b', sha256 }] }, 400],
    ['D16', 'a path twice', { files: [index, { path: '/index.html', sha256 }] }, 400],
    ['D16', 'a file that is a folder too', { files: [index, { path: 'a', sha256 }, { path: 'a/b', sha256 }] }, 400],
    ['D22', 'a size that is no integer', { files: [{ ...index, size: 'large' }] }, 422],
    ['D16', 'no list', { activate: true }, 422],
    ['D16', 'a hash that is a number', { files: [{ path: 'index.html', sha256: 7 }] }, 422],
  ])('%s: %s', async (_row, _what, json, expected) => refused(await post(step, json), expected))

  test('D16 Z02: activate=false without the plan for it, with 402, and takes it with the plan', async () => {
    for (const plan of ['free', 'start'] as const) {
      const { project, siteId } = await inNewProject(plan)
      await putFile(html('preview'), project)
      const answer = await post(step, { files: [entry(html('preview'))], activate: false }, project, siteId)
      if (plan === 'start') expect(answer.status).toBe(200)
      else expect([answer.status, answer.body.message]).toEqual([402, expect.stringContaining('Start')])
    }
  })

  test('E1: a site in the trash, with 409', async () => {
    const { project, siteId } = await inNewProject('start')
    await w.db.updateTable('sites').set({ deletion_scheduled_at: new Date() }).where('id', '=', siteId).execute()
    refused(await post(step, { files: [index] }, project, siteId), 409)
  })

  test('E3: a body of more than 4 MB, with 413; one of 2000 long paths fits', async () => {
    const long = 'x'.repeat(220)
    const path = (i: number) => `${long}/${long}/${long}/${long}/${i}`
    const files = Array.from({ length: maxManifestEntries }, (_, i) => ({ path: path(i), sha256 }))
    expect(JSON.stringify({ files }).length).toBeGreaterThan(1.5 * MB)
    expect((await post(step, { files })).status).toBe(step === 'check' ? 200 : 400)
    refused(await post(step, { files, padding: 'x'.repeat(maxManifestBodyBytes) }), 413)
  })
})

test('D16: check asks for no index.html and does not mind a package.json', async () => {
  const files = [{ path: 'package.json', sha256: hashOf('stored') }]
  await put(hashOf('stored'), Buffer.from('stored'))
  expect((await post('check', { files })).body).toEqual({ missing: [] })
})

describe('blobs', () => {
  test.each([
    ['other bytes than those of the hash', hashOf('promised'), Buffer.from('delivered')],
    ['an empty body', hashOf(''), Buffer.alloc(0)],
    ['a hash that is none', 'xyz', Buffer.from('x')],
    ['a hash in upper case', hashOf('x').toUpperCase(), Buffer.from('x')],
  ])('D17: %s is refused with 400 and leaves nothing', async (_what, sha256, bytes) => {
    const { project } = await inNewProject('start')
    refused(await put(sha256, bytes, project), 400)
    expect((await usage(project)).storage_bytes).toBe(0)
    expect(await w.cas.stat(hashOf('delivered'))).toBeUndefined()
    expect(await w.cas.stat(hashOf('promised'))).toBeUndefined()
  })

  test('D17 E3 O05: 50 MB are taken, one byte more is refused with 413, whether it is announced or not', async () => {
    const bytes = Buffer.alloc(maxBlobBytes + 1, 'blob ')
    const fits = bytes.subarray(0, maxBlobBytes)
    expect((await put(hashOf(fits), fits)).body).toMatchObject({ size: maxBlobBytes, existed: false })
    refused(await put(hashOf(bytes), bytes), 413)
    const unannounced = await fetch(`${w.base}/api/v1/blobs/${hashOf(bytes)}`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${owner.key}`, 'content-type': 'application/octet-stream' },
      body: new Blob([bytes]).stream(),
      duplex: 'half',
    })
    expect(unannounced.status).toBe(413)
    expect(await w.cas.stat(hashOf(bytes))).toBeUndefined()
  })

  test('D17 C04: another media type is refused with 415', async () => {
    refused(await put(hashOf('x'), Buffer.from('x'), owner, 'application/json'), 415)
  })

  test('D18: repeating a PUT is safe and tells that the blob was there; wrong bytes are refused all the same', async () => {
    const { project } = await inNewProject('start')
    const file = { path: 'x', content: 'repeated' }
    expect((await putFile(file, project)).body.existed).toBe(false)
    expect((await putFile(file, project)).body).toEqual({ sha256: hashOf('repeated'), size: 8, existed: true })
    refused(await put(hashOf('repeated'), Buffer.from('different'), project), 400)
    expect((await usage(project)).storage_bytes).toBe(8)
    expect(await Promise.all(Array.from({ length: 5 }, () => putFile({ path: 'y', content: 'at once' }, project)))).toHaveLength(
      5,
    )
    expect((await usage(project)).storage_bytes).toBe(15)
  })

  test("D18 C03: another project's blob is missing, and nothing tells that it exists", async () => {
    const file = html('a secret of the owner')
    await putFile(file)
    const { project, siteId } = await inNewProject('start')
    expect((await post('check', { files: [entry(file)] }, project, siteId)).body).toEqual({ missing: [hashOf(file.content)] })
    expect((await post('manifest', { files: [entry(file)] }, project, siteId)).status).toBe(400)
    expect((await putFile(file, project)).body.existed).toBe(false)
    expect((await post('manifest', { files: [entry(file)] }, project, siteId)).status).toBe(200)
  })

  test('D18 Z03: what exceeds the storage quota is refused with 409, announced or not, and only once it does', async () => {
    const { project } = await inNewProject('free')
    const blob = (letter: string) => Buffer.alloc(1.2 * MB, letter)
    expect((await put(hashOf(blob('a')), blob('a'), project)).status).toBe(200)
    const over = await put(hashOf(blob('b')), blob('b'), project)
    expect([over.status, over.body.message]).toEqual([409, expect.stringContaining('Free')])
    expect((await put(hashOf(blob('a')), blob('a'), project)).body.existed).toBe(true)
    const small = ['c', 'd', 'e'].map((letter) => Buffer.alloc(0.4 * MB, letter))
    const answers = await Promise.all(small.map((bytes) => put(hashOf(bytes), bytes, project)))
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, 200, 409])
    expect((await usage(project)).storage_bytes).toBeLessThanOrEqual(2 * MB)
  })

  test('D18 Z05: a suspended project is refused with 402', async () => {
    const { project } = await inNewProject('start')
    await change(project, { suspended: true })
    refused(await put(hashOf('x'), Buffer.from('x'), project), 402)
  })

  test('D17: a blob of text has a gzip variant, another one has none', async () => {
    for (const [bytes, hasGzip] of [
      [Buffer.from('body { color: red }\n'.repeat(100)), true],
      [Buffer.alloc(2000), false],
    ] as const) {
      await put(hashOf(bytes), bytes)
      const encoded = await w.cas.open(hashOf(bytes), 'gzip')
      await encoded?.close()
      expect(encoded !== undefined).toBe(hasGzip)
    }
  })
})

describe('manifest', () => {
  test('D20 C02: missing blobs are named in a body that has nothing else', async () => {
    const files = [html('known'), ...['one', 'two', 'three'].map((text) => ({ path: `${text}.txt`, content: `unknown ${text}` }))]
    await putFile(html('known'))
    const repeated = [...files, { path: 'again.txt', content: 'unknown one' }]
    const { status, body } = await post('manifest', { files: repeated.map(entry) })
    const missing = files.slice(1).map((file) => hashOf(file.content))
    expect([status, body]).toEqual([400, { error: expect.stringMatching(/\S/), missing }])
  })

  test.each([
    ['no index.html at the root', [{ path: 'a/index.html', content: 'policy' }]],
    ['a package.json', [html('policy'), { path: 'package.json', content: 'policy' }]],
  ])('D21: %s is refused with 400', async (_what, files) => {
    for (const file of files) await putFile(file)
    refused(await post('manifest', { files: files.map(entry) }), 400)
  })

  test('D21 V13 V14: files that are left out need no blob and are named', async () => {
    const files = [html('skips'), { path: '.git/config', content: 'never sent' }, { path: '__svc/x', content: 'never sent' }]
    await putFile(html('skips'))
    const { body } = await post('manifest', { files: files.map(entry) })
    expect(body).toMatchObject({ skipped_paths: ['.git/config', '__svc/x'], file_count: 1 })
  })

  test('D21 D04 Z03: used-up build minutes and the deploy rate are refused with 429', async () => {
    const { project, siteId } = await inNewProject('free')
    await putFile(html('often'), project)
    const send = () => post('manifest', { files: [entry(html('often'))] }, project, siteId)
    const answers = await Promise.all([1, 2, 3, 4, 5].map(send))
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, 200, 200, 429, 429])
    const other = await inNewProject('free')
    await putFile(html('often'), other.project)
    await addBuildMinutes(w.db, other.project.id, new Date(), 100)
    refused(await post('manifest', { files: [entry(html('often'))] }, other.project, other.siteId), 429)
  })

  test('D21 Z05: a suspended project is refused with 402', async () => {
    const { project, siteId } = await inNewProject('start')
    await putFile(html('unpaid'), project)
    await change(project, { suspended: true })
    refused(await post('manifest', { files: [entry(html('unpaid'))] }, project, siteId), 402)
  })

  test('D21 Z03: a project whose plan has become too small is refused with 409', async () => {
    const { project, siteId } = await inNewProject('start')
    const big = { path: 'big.bin', content: 'x'.repeat(2.5 * MB) }
    for (const file of [html('x'), big]) await putFile(file, project)
    await change(project, { plan: 'free' })
    refused(await post('manifest', { files: [html('x'), big].map(entry) }, project, siteId), 409)
  })
})

describe('the manifest of a site', () => {
  const manifestOf = async (siteId: string) => (await w.call(`GET /api/v1/sites/${siteId}/manifest`, { key: owner.key })).body

  test('D23: is empty before the first deploy, tells paths and hashes of files and manifests, and is empty for an archive', async () => {
    const { id } = await makeSite(w, owner)
    expect(await manifestOf(id)).toEqual([])
    const files = [html('one'), { path: 'a.txt', content: 'a' }]
    await deployManifest(files, owner, id)
    const expected = [files[1], files[0]].map((file) => file && entry(file))
    expect(await manifestOf(id)).toEqual(expected)
    await deployFiles(w, owner, id, [page('two')])
    expect(await manifestOf(id)).toEqual([entry(html('two'))])
    await w.db.updateTable('deploys').set({ source_kind: 'archive' }).where('site_id', '=', id).execute()
    expect(await manifestOf(id)).toEqual([])
  })

  test('D23: what an archive has built is not told while it waits either', async () => {
    const { id } = await makeSite(w, owner)
    await deployManifest([html('live')], owner, id)
    const bytes = tarGz([{ name: 'index.html', data: 'x' }])
    await w.call(`POST /api/v1/sites/${id}/deploys`, { key: owner.key, bytes, type: 'application/gzip' })
    expect(await manifestOf(id)).toEqual([entry(html('live'))])
  })
})

describe('E10 Z03: the storage of a project', () => {
  test('counts what is staged, once, and what a purge takes no more', async () => {
    const { project, siteId } = await inNewProject('start')
    const big = { path: 'big.txt', content: 'b'.repeat(10_000) }
    await putFile(big, project)
    expect((await usage(project)).storage_bytes).toBe(10_000)
    const first = await deployManifest([html('one'), big], project, siteId)
    expect((await usage(project)).storage_bytes).toBe(10_000 + html('one').content.length)
    await deployManifest([html('two')], project, siteId)
    expect((await w.call(`DELETE /api/v1/deploys/${first.id}`, { key: project.key })).body).toEqual({ ok: true })
    expect((await usage(project)).storage_bytes).toBe(html('two').content.length)
    expect((await post('check', { files: [entry(big)] }, project, siteId)).body).toEqual({ missing: [hashOf(big.content)] })
    expect((await putFile(big, project)).body.existed).toBe(false)
  })

  test('a file that equals the manifest of a purged deploy counts its bytes and can be referenced', async () => {
    const { project, siteId } = await inNewProject('start')
    const first = await deployFiles(w, project, siteId, [html('one')])
    await deployFiles(w, project, siteId, [html('two')])
    await w.call(`DELETE /api/v1/deploys/${first.id}`, { key: project.key })
    const former = {
      path: 'former.json',
      content: JSON.stringify({ files: [{ ...entry(html('one')), size: html('one').content.length }] }),
    }
    await deployFiles(w, project, siteId, [html('two'), former])
    const bytes = html('two').content.length + former.content.length
    expect((await usage(project)).storage_bytes).toBe(bytes)
    const { total_bytes } = await deployFiles(w, project, siteId, [html('two'), entry(former)])
    expect(total_bytes).toBe(bytes)
    const { subdomain } = (await w.call(`GET /api/v1/sites/${siteId}`, { key: project.key })).body
    expect((await w.visit(subdomain, '/former.json')).body).toBe(former.content)
  })

  test('keeps what was sent again although the deploy that had it is purged', async () => {
    const { project, siteId } = await inNewProject('start')
    const shared = { path: 'shared.txt', content: 'needed by the next deploy' }
    const first = await deployManifest([html('one'), shared], project, siteId)
    await deployManifest([html('two')], project, siteId)
    expect((await putFile(shared, project)).body.existed).toBe(true)
    await w.call(`DELETE /api/v1/deploys/${first.id}`, { key: project.key })
    expect((await deployManifest([html('two'), shared], project, siteId)).status).toBe('active')
  })

  test('a check begins the grace of staged blobs anew, a deploy ends their staging', async () => {
    const { project, siteId } = await inNewProject('start')
    const touched = async () => {
      const rows = await w.db.selectFrom('blobs').selectAll().where('project_id', '=', project.id).execute()
      const hoursAhead = (time: Date) => Math.floor((time.getTime() - Date.now() + 60_000) / 3_600_000)
      return rows.map((row) => [row.staged, row.deploys, hoursAhead(row.touched_at)])
    }
    await putFile(html('x'), project)
    expect(await touched()).toEqual([[true, 0, 0]])
    w.advance(sweepGraceMs)
    await post('check', { files: [entry(html('x'))] }, project, siteId)
    expect(await touched()).toEqual([[true, 0, 24]])
    await deployManifest([html('x')], project, siteId)
    expect(await touched()).toEqual([[false, 1, 24]])
  })
})
