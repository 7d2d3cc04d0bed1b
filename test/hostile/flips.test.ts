import { createHash } from 'node:crypto'
import { Agent } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ok, type Platform, report, type Site, startPlatform } from './platform.ts'

// Check 5. The version of the page is a number that grows with each activation; each visitor keeps one connection.

const versions = 8
const flips = 100
const flipPauseMs = 200
const visitors = 8

let platform: Platform
let site: Site
beforeAll(async () => {
  platform = await startPlatform()
  site = await platform.emptySite('flips')
})
afterAll(() => platform?.[Symbol.asyncDispose]())

const pageOf = (version: number) => `<!doctype html><title>version ${version}</title>`

test('5: activations every 200 ms fail no visit, never go back for one visitor, and each ETag is that of its body', async () => {
  const deploys: string[] = []
  for (let version = 0; version < versions; version++) {
    const files = [{ path: 'index.html', content: pageOf(version) }]
    const { id } = await ok(platform.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: site.key, json: { files } }))
    deploys.push(id)
    await platform.reaches(site, id)
  }
  await ok(platform.call(`POST /api/v1/deploys/${deploys[0]}/activate`, { key: site.key }))
  const served = async () => (await platform.call('GET /', { host: site.host })).body
  await expect.poll(served, { timeout: 30_000 }).toBe(pageOf(0))

  /** How often each deploy was made the active one: the n-th activation shows version n modulo `versions`. */
  let flipped = 0
  const over = new AbortController()
  const wrong: string[] = []
  let visits = 0
  async function visit(): Promise<void> {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    // the number of activations that this visitor has seen
    let seen = 0
    while (!over.signal.aborted) {
      const { status, headers, body } = await platform.call('GET /', { host: site.host, agent })
      const latest = flipped
      visits += 1
      const version = Number(/version (\d+)/.exec(String(body))?.[1])
      const etag = `"${createHash('sha256').update(String(body)).digest('hex')}"`
      if (status !== 200) wrong.push(`status ${status}`)
      if (headers.etag?.replace('W/', '') !== etag) wrong.push(`ETag ${headers.etag} instead of ${etag}`)
      // one more than answered: the activation under way may be seen before its answer is
      const back = Array.from({ length: latest + 2 - seen }, (_, i) => seen + i).find((n) => n % versions === version)
      if (back === undefined) wrong.push(`version ${version} after ${seen} of ${latest} activations were seen`)
      else seen = back
    }
    agent.destroy()
  }
  const visiting = Array.from({ length: visitors }, visit)
  for (let n = 1; n <= flips; n++) {
    await ok(platform.call(`POST /api/v1/deploys/${deploys[n % versions]}/activate`, { key: site.key }))
    flipped = n
    await pause(flipPauseMs)
  }
  over.abort()
  await Promise.all(visiting)
  report('5', `${wrong.length} of ${visits} visits wrong during ${flips} activations`, '0 wrong')
  expect(wrong).toEqual([])
  await expect.poll(served, { timeout: 30_000 }).toBe(pageOf(flips % versions))
})
