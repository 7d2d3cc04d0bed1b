import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { execa } from 'execa'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ok, type Platform, report, type Site, startPlatform } from './platform.ts'

// Check 36, by the commands of README.md.

const root = resolve(import.meta.dirname, '../..')
const siteCount = 3

let dir: string
let platform: Platform | undefined
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-backup-'))
  platform = await startPlatform({ folder: dir })
})
afterAll(async () => {
  await platform?.[Symbol.asyncDispose]()
  await rm(dir, { recursive: true, force: true })
})

const contentOf = (site: Site, version: number) => `${site.host}, version ${version}`
const filesOf = (site: Site, version: number) =>
  Array.from({ length: 20 }, (_, i) => ({
    path: i === 0 ? 'index.html' : `${i}.txt`,
    content: `${contentOf(site, version)}, file ${i}`,
  }))

async function deploy(running: Platform, site: Site, version: number): Promise<string> {
  const json = { files: filesOf(site, version) }
  return (await ok(running.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: site.key, json }))).id
}

const run = (script: string, args: readonly string[], dataDir: string) =>
  execa('npm', ['run', '--silent', script, '--', ...args], { cwd: root, env: { PLINTH_DATA_DIR: dataDir } })

test('36: a backup taken during deploys brings back every acknowledged deploy, and every active file byte for byte', async () => {
  const before = platform as Platform
  const sites = await Promise.all(Array.from({ length: siteCount }, (_, n) => before.emptySite(`backup-${n}`)))
  for (const site of sites) await before.reaches(site, await deploy(before, site, 0))
  const over = new AbortController()
  const deploys = sites.map(() => [] as string[])
  const deploying = sites.map(async (site, n) => {
    for (let version = 1; !over.signal.aborted; version++) {
      deploys[n]?.push(await deploy(before, site, version))
      await pause(200)
    }
  })
  while (deploys.some((made) => made.length < 3)) await pause(20)
  const acknowledged = deploys.map((made) => made.length)
  const backup = join(dir, 'backup')
  await run('backup', [backup], before.config.dataDir)
  const later = deploys.map((made) => made.length)
  over.abort()
  await Promise.all(deploying)
  await before[Symbol.asyncDispose]()
  platform = undefined

  const startedAt = performance.now()
  const restored = join(dir, 'restored')
  await run('restore', [backup], join(restored, 'data'))
  await using after = await startPlatform({ folder: restored })
  const versionOf = async (site: Site) =>
    Number(/version (\d+)/.exec((await after.call('GET /', { host: site.host })).body as string)?.[1])
  for (const [n, site] of sites.entries()) {
    const list = (await ok(after.call(`GET /api/v1/sites/${site.id}/deploys?limit=200`, { key: site.key }))) as { id: string }[]
    const ids = list.map(({ id }) => id)
    // what was acknowledged before the backup began is there, and all of it ends
    expect(deploys[n]?.slice(0, acknowledged[n]).filter((id) => !ids.includes(id))).toEqual([])
    const ended = ['active', 'superseded', 'failed']
    for (const id of ids) expect((await after.reaches(site, id, ended)).status).not.toBe('failed')
    const newest = ids.length - 1
    await expect.poll(() => versionOf(site), { timeout: 60_000 }).toBe(newest)
    for (const { path, content } of filesOf(site, newest)) {
      const served = await after.call(`GET /${path === 'index.html' ? '' : path}`, { host: site.host })
      expect([path, served.status, served.body]).toEqual([path, 200, content])
    }
  }
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
  report(
    '36',
    `restored, started and all ${siteCount * 20} active files compared in ${seconds} s; ${later.join(', ')} deploys during it`,
    '300 s',
  )
  expect(performance.now() - startedAt).toBeLessThan(300_000)
}, 900_000)
