import { afterAll, beforeAll, expect, test } from 'vitest'
import { archiveOf, makeSite } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

// The build settings of a site, through the public face, with builds in the real sandbox.

let w: World
let owner: TestProject
let site: any
beforeAll(async () => {
  w = await world({ runner: true, edge: true })
  owner = await w.project()
  site = await makeSite(w, owner)
})
afterAll(() => w?.[Symbol.asyncDispose]())

const set = async (json: object) => {
  expect((await w.call(`PATCH /api/v1/sites/${site.id}`, { key: owner.key, json })).status).toBe(200)
}

async function deploy(files: Record<string, string>, query = ''): Promise<any> {
  const bytes = archiveOf(files)
  const call = `POST /api/v1/sites/${site.id}/deploys${query}`
  const { body } = await w.call(call, { key: owner.key, bytes, type: 'application/gzip' })
  return await w.ended(body.id, owner.key)
}

const none = { install_command: null, build_command: null, output_dir: null, root_dir: null, node_version: null }

test('E30: the settings of a site build an archive, without a package.json too', async () => {
  await set({
    root_dir: 'web',
    install_command: 'echo installed > note',
    build_command: 'mkdir www && (cat note; node -v) > www/index.html',
    output_dir: 'www',
    node_version: '22',
  })
  expect(await deploy({ 'web/text': 'x', 'index.html': 'not this one' })).toMatchObject({ status: 'active', build_mode: 'build' })
  await expect.poll(async () => (await w.visit(site.subdomain)).body).toMatch(/^installed\nv22\.\d+\.\d+\n$/)
})

test('E30: what is wrong with a folder names the site', async () => {
  await set({ ...none, build_command: 'mkdir dist', output_dir: 'www' })
  expect((await deploy({ 'a.txt': 'x' })).error).toMatch(/^the build wrote no folder "www", which the site names as output_dir/)
  await set({ ...none, root_dir: 'web' })
  expect((await deploy({ 'a.txt': 'x' })).error).toMatch(/^the source has no folder "web", the root_dir of the site/)
})

const plinth = (content: object) => JSON.stringify(content)

test('E30: plinth.json in the source wins over the site, member by member, and ignores what is not to be published', async () => {
  await set({ ...none, build_command: 'exit 1', node_version: '22', root_dir: 'nowhere' })
  const build = {
    build_command: 'mkdir www; cp -r text drafts www; node -v > www/index.html',
    output_dir: 'www',
    root_dir: 'web',
  }
  const deployed = await deploy({
    'plinth.json': plinth({ build, ignore: ['drafts/', '*.map'] }),
    'web/text/a.txt': 'x',
    'web/text/a.map': 'x',
    'web/drafts/b.txt': 'x',
  })
  expect(deployed).toMatchObject({ status: 'active', file_count: 2, skipped_paths: ['drafts/', 'text/a.map'] })
  await expect.poll(async () => (await w.visit(site.subdomain)).body).toMatch(/^v22\./)
  const log = await w.call(`GET /api/v1/deploys/${deployed.id}/logs`, { key: owner.key })
  expect(log.body.text).toContain('plinth.json sets build_command, output_dir, root_dir')
})

test('E30: an invalid plinth.json fails the deploy and is named', async () => {
  await set(none)
  const error = async (text: string) => (await deploy({ 'index.html': 'x', 'plinth.json': text })).error
  expect(await error('{')).toMatch(/^plinth.json is not valid JSON .*; correct it and deploy again$/)
  expect(await error(plinth({ build: { output_dir: '..' } }))).toMatch(/^plinth.json is not valid: build.output_dir contains/)
  expect(await error(' '.repeat(65 * 1024))).toBe('plinth.json is larger than 64 KB; shorten it and deploy again')
  expect(await error(plinth({ build: { root_dir: 'web' } }))).toMatch(
    /the root_dir of plinth.json; change root_dir of plinth.json/,
  )
  await set({ root_dir: 'web' })
  const inFolder = { 'web/plinth.json': plinth({ build: { root_dir: 'a' } }), 'web/index.html': 'x', 'a/index.html': 'y' }
  expect((await deploy(inFolder)).error).toMatch(/^web\/plinth.json names a root_dir; move it to plinth.json at the root/)
})

test('E30 E32: plinth.json itself answers as missing', async () => {
  await set(none)
  expect((await deploy({ 'index.html': 'plain', 'plinth.json': '{}' })).status).toBe('active')
  await expect.poll(async () => (await w.visit(site.subdomain)).body).toBe('plain')
  expect((await w.visit(site.subdomain, '/plinth.json')).status).toBe(404)
})

test('E30: the JSON schema of plinth.json is public', async () => {
  const { status, headers, body } = await w.call('GET /plinth.schema.json')
  expect([status, headers.get('content-type')]).toEqual([200, expect.stringContaining('application/schema+json')])
  expect(JSON.parse(body).title).toBe('plinth.json')
})

test('E30: erased settings are those of every new site', async () => {
  await set(none)
  expect(await deploy({ 'index.html': 'plain' })).toMatchObject({ status: 'active', build_mode: 'static' })
})
