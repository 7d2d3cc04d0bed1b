import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { tarGz } from '../infra/archives.ts'
import { makeSite } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

const fixtures = join(import.meta.dirname, '..', 'fixtures', 'generators')

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({
    runner: true,
    edge: true,
    env: { PLINTH_BUILD_SLOTS: '1', PLINTH_BUILD_MEMORY: '2g', PLINTH_BUILD_TIMEOUT: '10m' },
  })
  owner = await w.project('business')
})
afterAll(() => w[Symbol.asyncDispose]())

async function archive(folder: string): Promise<Buffer> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  return tarGz(
    await Promise.all(files.map(async (file) => ({ name: file.slice(folder.length + 1), data: await readFile(file) }))),
  )
}

async function logOf(deployId: string): Promise<string> {
  return (await w.buildLogs.read(deployId, 0, 16 * 1024 * 1024)).bytes.toString('utf8')
}

test.each([
  {
    name: 'astro',
    installs: ['$ node -v\nv20.', '$ pnpm install --frozen-lockfile'],
    pages: { '/': '<h1>Astro</h1>', '/favicon.svg': '<svg' },
  },
  {
    name: 'vitepress',
    installs: ['$ node -v\nv22.', '$ npm ci'],
    pages: { '/': 'A VitePress Site', '/markdown-examples': 'Syntax Highlighting' },
  },
  {
    name: 'eleventy',
    installs: ['$ node -v\nv20.', '$ yarn install --frozen-lockfile'],
    pages: { '/': '<a href="/posts/first/">First</a>', '/posts/first/': '<h1>First</h1>', '/style.css': 'sans-serif' },
  },
  {
    name: 'next',
    installs: ['$ node -v\nv20.', '$ npm ci'],
    pages: { '/': 'Get started by editing', '/404': '404' },
  },
])('B01 B03 B05: what the generator of $name makes is built and served', { timeout: 600_000 }, async (made) => {
  const site = await makeSite(w, owner)
  const bytes = await archive(join(fixtures, made.name))
  const { body } = await w.call(`POST /api/v1/sites/${site.id}/deploys`, { key: owner.key, bytes, type: 'application/gzip' })
  const deploy = await w.ended(body.id, owner.key)
  expect(deploy).toMatchObject({ status: 'active', build_mode: 'build', error: null })
  const log = await logOf(deploy.id)
  for (const line of made.installs) expect(log).toContain(line)
  expect(log).not.toContain('registry.npmjs.org failed')
  for (const [path, text] of Object.entries(made.pages)) {
    const visit = async () => {
      const { status, body } = await w.visit(site.subdomain, path)
      return [path, status, body]
    }
    await expect.poll(visit).toEqual([path, 200, expect.stringContaining(text)])
  }
})

test('B01: a site in a folder of its repository is built there once its settings say so', async () => {
  const site = await makeSite(w, owner)
  const packageJson = JSON.stringify({
    name: 'web',
    version: '1.0.0',
    scripts: { build: 'mkdir dist && cp text.txt dist/index.html' },
  })
  const bytes = tarGz([
    { name: 'index.html', data: 'of the root' },
    { name: 'apps/web/package.json', data: packageJson },
    { name: 'apps/web/text.txt', data: 'of the folder' },
  ])
  const deploy = async () => {
    const { body } = await w.call(`POST /api/v1/sites/${site.id}/deploys`, { key: owner.key, bytes, type: 'application/gzip' })
    return await w.ended(body.id, owner.key)
  }
  expect(await deploy()).toMatchObject({ status: 'active', build_mode: 'static' })
  const json = { name: 'N', root_dir: 'apps/web' }
  expect((await w.call(`PATCH /api/v1/sites/${site.id}`, { key: owner.key, json })).body.root_dir).toBe('apps/web')
  expect(await deploy()).toMatchObject({ status: 'active', build_mode: 'build' })
  await expect.poll(async () => (await w.visit(site.subdomain)).body).toBe('of the folder')
})
