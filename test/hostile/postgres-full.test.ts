import { mkdir, mkdtemp, rm, statfs, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { execa } from 'execa'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { claimDataDir } from '../../infra/local/data-dir.ts'
import { startPostgres } from '../../infra/local/postgres.ts'
import { ok, type Platform, report, type Site, startPlatform } from './platform.ts'

// Check 23. The database lies on a small volume of its own, which a file fills to the last byte.

const volumeMiB = 256

let dir: string
let volume: string
let platform: Platform | undefined
let site: Site
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-full-'))
  volume = join(dir, 'volume')
  await mkdir(volume)
  await execa('chmod', ['711', dir])
  await execa('mount', ['-t', 'tmpfs', '-o', `size=${volumeMiB}m,mode=0711`, 'tmpfs', volume])
  const cluster = join(volume, 'postgres')
  await (await startPostgres({ dir: cluster, log: () => undefined }))[Symbol.asyncDispose]()
  await (await claimDataDir(join(dir, 'data')))[Symbol.asyncDispose]()
  await symlink(cluster, join(dir, 'data', 'postgres'))
  platform = await startPlatform({ folder: dir })
  site = await platform.emptySite('postgres-full')
  const json = { files: [{ path: 'index.html', content: 'served' }] }
  const { id } = await ok(platform.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: site.key, json }))
  await platform.reaches(site, id)
})
afterAll(async () => {
  await platform?.[Symbol.asyncDispose]()
  await execa('umount', ['--lazy', volume])
  await rm(dir, { recursive: true, force: true })
})

test('23: with the volume of PostgreSQL full the api answers 503, sites are served, and freed space brings everything back', async () => {
  const running = platform as Platform
  const { key, id, host } = site
  const acknowledged: string[] = []
  const statuses = new Map<number, number>()
  const describe = 'x'.repeat(1900)
  async function write(n: number): Promise<number> {
    const json = { name: `write ${n}`, subdomain: `postgres-full-${n}`, description: describe }
    const { status, body } = await running.call('POST /api/v1/sites', { key, json })
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
    if (status === 200) acknowledged.push(body.id)
    else expect(Object.keys(body)).toEqual(['message'])
    return status
  }
  const filler = join(volume, 'filler')
  const { bavail, bsize } = await statfs(volume)
  await writeFile(filler, Buffer.alloc(bavail * bsize)).catch(() => undefined)
  let n = 0
  let refusals = 0
  // the log has room left in the segments that are there: some writes succeed
  for (const deadline = performance.now() + 240_000; refusals < 20 && performance.now() < deadline; n++) {
    if ((await write(n)) !== 200) refusals += 1
    expect((await running.call('GET /', { host })).body).toBe('served')
  }
  expect(refusals).toBe(20)
  await rm(filler)
  const freedAt = performance.now()
  while ((await write(n++)) !== 200) await pause(100)
  const recoveredMs = performance.now() - freedAt
  for (const made of acknowledged) expect((await running.call(`GET /api/v1/sites/${made}`, { key })).status).toBe(200)
  expect((await running.call(`GET /api/v1/sites/${id}`, { key })).status).toBe(200)
  const counts = [...statuses].map(([status, count]) => `${status}: ${count}`).join(', ')
  report(
    '23',
    `answers ${counts}; back ${(recoveredMs / 1000).toFixed(1)} s after space was freed; ${acknowledged.length} of ${acknowledged.length} kept`,
    '503 only, no loss',
  )
  expect([...statuses.keys()].filter((status) => ![200, 503].includes(status))).toEqual([])
}, 900_000)
