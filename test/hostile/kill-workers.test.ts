import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { execa } from 'execa'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitUntil } from '../../infra/local/wait.ts'
import { tarGz } from '../infra/archives.ts'
import { ok, type Platform, report, type Site, startPlatform } from './platform.ts'

// Check 14. Builds of some seconds, during each of which the worker or the runner is killed at another moment: from the fetch of the
// source to the activation.

const kills = 10
const buildMs = 2000
/** How long a build takes at most from its start to its activation, on a busy machine. */
const longestBuildMs = 15_000
/** Heartbeat, sticky queue, and ten seconds. */
const recoveryMs = 10_000 + 2000 + 10_000

let platform: Platform
let site: Site
beforeAll(async () => {
  platform = await startPlatform()
  site = await platform.emptySite('kill-workers')
})
afterAll(() => platform?.[Symbol.asyncDispose]())

/** Processes, folders and cgroups of builds. */
async function leftOfBuilds(): Promise<string[]> {
  const { dir } = platform.config.build
  const folders = (await readdir(dir)).filter((name) => name.startsWith('run-'))
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const commands = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')))
  const sandboxes = commands.filter((command) => command.includes('bwrap') && command.includes(dir))
  // as the runner names the group of its builds
  const group = `plinth-${createHash('sha256').update(dir).digest('hex').slice(0, 12)}`
  const { stdout } = await execa('find', ['/sys/fs/cgroup', '-type', 'd', '-path', `*/${group}/*`], { reject: false })
  return [...folders, ...sandboxes.map((command) => command.replaceAll('\0', ' ')), ...stdout.split('\n').filter(Boolean)]
}

test('14: whenever the worker or the runner is killed, the build ends soon, one deploy is active, and nothing of the build is left', async () => {
  const { key, id } = site
  const took: string[] = []
  let slowestMs = 0
  for (let n = 0; n < kills; n++) {
    const name = n % 2 === 0 ? 'runner' : 'worker'
    const afterMs = (n / kills) * (buildMs + 3000)
    const script = `sleep ${buildMs / 1000} && mkdir dist && echo ${n} > dist/index.html`
    const bytes = tarGz([
      { name: 'package.json', data: JSON.stringify({ name: 'x', version: '1.0.0', scripts: { build: script } }) },
      ...Array.from({ length: 200 }, (_, i) => ({ name: `public/${i}.txt`, data: `${n} ${i}` })),
    ])
    const build = await ok(platform.call(`POST /api/v1/sites/${id}/deploys`, { key, bytes }))
    await pause(afterMs)
    const before = (await ok(platform.call(`GET /api/v1/deploys/${build.id}`, { key }))).status as string
    const killedAt = performance.now()
    await platform.restart(name, 'SIGKILL')
    const { status } = await platform.reaches(site, build.id, ['active', 'superseded', 'failed'])
    const elapsedMs = performance.now() - killedAt
    slowestMs = Math.max(slowestMs, elapsedMs)
    took.push(`${name} after ${afterMs} ms (${before}): ${status} in ${Math.round(elapsedMs)} ms`)
    expect(status).toBe('active')
    const deploys = (await ok(platform.call(`GET /api/v1/sites/${id}/deploys?limit=200`, { key }))) as {
      id: string
      status: string
    }[]
    expect(deploys.filter((one) => one.status === 'active').map((one) => one.id)).toEqual([build.id])
  }
  await waitUntil('the folders of builds', async () => (await leftOfBuilds()).length === 0, { timeoutMs: 30_000 }).catch(
    () => undefined,
  )
  const left = await leftOfBuilds()
  console.table(took)
  report(
    '14',
    `slowest end ${Math.round(slowestMs)} ms after a kill, ${left.length} leftovers, ${kills} kills`,
    `${recoveryMs + longestBuildMs} ms, 0`,
  )
  expect(left).toEqual([])
  expect(slowestMs).toBeLessThan(recoveryMs + longestBuildMs)
})
