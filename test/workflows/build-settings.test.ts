import { afterAll, beforeAll, expect, test } from 'vitest'
import { tarGz } from '../infra/archives.ts'
import { makeSite } from '../make.ts'
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
  const bytes = tarGz(Object.entries(files).map(([name, data]) => ({ name, data })))
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

test('E30: erased settings are those of every new site', async () => {
  await set(none)
  expect(await deploy({ 'index.html': 'plain' })).toMatchObject({ status: 'active', build_mode: 'static' })
})
