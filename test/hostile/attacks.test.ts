import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { tarGz } from '../infra/archives.ts'
import { startDnsServer, type TestDnsServer } from '../infra/dns-server.ts'
import {
  type Attacker,
  type Bystander,
  type CountedAttack,
  connectRepository,
  countedAttacks,
  type FillingAttack,
  fillingAttacks,
  type ShapedAttack,
  shapedAttacks,
} from './attacks.ts'
import { type Platform, type Project, roles, type Site, startPlatform } from './platform.ts'
import { type Suffered, watchVictim } from './victim.ts'

// What others suffer while one tenant attacks, on the real processes through Caddy. PLINTH_TREE=<another checkout> measures that one
// and judges nothing, to compare two versions.

const tree = process.env['PLINTH_TREE']
const longestMs = 250
const mostTimes = 3
const mostMiB = 600
/** A victim that is this quick has nothing to complain of, whatever the ratio is. */
const quickMs = 100

let names: TestDnsServer
let platform: Platform
let victim: Attacker
/** Proves the victim's own webhooks. */
let webhookSecret: string
let pids: Record<string, number>
const peaks: Record<string, number> = {}
const rows: string[][] = []

beforeAll(async () => {
  names = await startDnsServer(({ bytes }) => serverFailure(bytes))
  platform = await startPlatform({ tree, settings: { PLINTH_DNS_SERVERS: `${names.address}:${names.port}` } })
  victim = await attacker()
  webhookSecret = await connectRepository(victim)
  pids = Object.fromEntries(Object.entries(await platform.memory()).map(([role, { pid }]) => [role, pid]))
  // the first answers of a fresh process are slow
  await measure([], () => pause(3000))
  await measure(['build', 'deploy'], () => pause(3000))
})
afterAll(async () => {
  printTable()
  await platform?.[Symbol.asyncDispose]()
  await names?.[Symbol.asyncDispose]()
})

/** The answer to a query of a name server that has none. */
function serverFailure(query: Buffer): Buffer {
  const answer = Buffer.from(query)
  answer[2] = (answer[2] ?? 0) | 0x80
  answer[3] = 2
  return answer
}

async function attacker(plan = 'enterprise'): Promise<Attacker> {
  const project = await platform.project(plan)
  return { platform, project, site: await platform.site(project), nameQuestions: () => names.asked.length }
}

/** What each victim suffers from a while before the work until a while after it. */
async function measure(bystanders: readonly Bystander[], work: () => Promise<unknown>) {
  const watched = watchAll(bystanders)
  await pause(300)
  const began = performance.now()
  await Promise.race([work(), pause(120_000)])
  const tookMs = performance.now() - began
  await pause(300)
  const suffered = Object.fromEntries(
    await Promise.all(Object.entries(watched).map(async ([who, stop]) => [who, await stop()] as const)),
  )
  return { tookMs, suffered }
}

function watchAll(bystanders: readonly Bystander[]): Record<string, () => Promise<Suffered>> {
  const { project, site } = victim
  const key = { authorization: `Bearer ${project.key}`, 'content-type': 'application/json' }
  const common = { port: platform.port, method: 'GET', headers: { host: 'localhost' } }
  const api = { ...common, headers: { ...common.headers, ...key } }
  const files = [{ path: 'index.html', content: '<!doctype html><title>x</title>' }]
  return {
    visit: watchVictim({ ...common, path: '/', headers: { host: site.host } }),
    api: watchVictim({ ...api, path: '/api/v1/sites' }),
    ...(bystanders.includes('deploy') && {
      deploy: watchVictim({
        ...api,
        method: 'POST',
        path: `/api/v1/sites/${site.id}/deploy-files`,
        body: JSON.stringify({ files }),
      }),
    }),
    ...(bystanders.includes('webhook') && {
      webhook: watchVictim({
        ...common,
        method: 'POST',
        path: `/hooks/git/${site.id}`,
        body: JSON.stringify({ ref: 'refs/heads/not-built', after: 'd'.repeat(40) }),
        headers: { ...common.headers, 'content-type': 'application/json', 'x-svc-token': webhookSecret },
      }),
    }),
    ...(bystanders.includes('build') && { build: watchBuilds(project, site) }),
  }
}

/** Deploys a small archive again and again; its time is that until it is live. */
function watchBuilds(project: Project, site: Site): () => Promise<Suffered> {
  const stopped = new AbortController()
  const archive = tarGz([{ name: 'index.html', data: '<!doctype html><title>x</title>' }])
  const watching = (async () => {
    const times: number[] = []
    const failed: Record<string, number> = {}
    do {
      const began = performance.now()
      const { body } = await platform.deployArchive(project, site.id, archive)
      times.push(performance.now() - began)
      if (body.status === 'failed') failed[body.error] = (failed[body.error] ?? 0) + 1
      await pause(50)
    } while (!stopped.signal.aborted)
    const sorted = times.toSorted((a, b) => a - b)
    const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? 0
    return { worst: sorted.at(-1) ?? 0, median: at(0.5), p90: at(0.9), answers: times.length, failed }
  })()
  return () => {
    stopped.abort()
    return watching
  }
}

const ms = (value: number) => `${Math.round(value)} ms`
const shown = (suffered: Record<string, Suffered>) =>
  Object.entries(suffered).map(([who, { worst, failed }]) => {
    const broken = Object.entries(failed).map(([status, count]) => `${count}×${status}`)
    return `${who} ${ms(worst)}${broken.length > 0 ? ` (${broken.join(', ')})` : ''}`
  })

async function note(name: string, tookMs: number, suffered: Record<string, Suffered>, beside?: Record<string, Suffered>) {
  rows.push([name, ms(tookMs), shown(suffered).join(', '), beside ? shown(beside).join(', ') : '', await memorySince()])
}

/** The peaks since the last row; the highest of all are kept. */
async function memorySince(): Promise<string> {
  const memory = await platform.memory()
  for (const role of roles) peaks[role] = Math.max(peaks[role] ?? 0, memory[role].peakMiB)
  return roles.map((role) => `${role} ${memory[role].peakMiB}`).join(', ')
}

function printTable(): void {
  const heads = ['attack', 'takes', 'worst answer of the victims', 'beside a well-behaved load', 'peaks of memory (MiB)']
  process.stdout.write(`\n${[heads, heads.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n')}\n`)
}

test.each(shapedAttacks)(
  'the victims of "$name" wait no longer than 250 ms',
  async ({ name, prepare, victims = [] }: ShapedAttack) => {
    const attack = await prepare(await attacker())
    const { tookMs, suffered } = await measure(victims, attack)
    const beside = victims.includes('build') ? (await besideBuild()).suffered : undefined
    await note(name, tookMs, suffered, beside)
    if (tree !== undefined) return
    for (const [who, { worst }] of Object.entries(suffered)) {
      if (who === 'build') expect(worst, who).toBeLessThanOrEqual(mostTimes * (beside?.['build']?.worst ?? 0))
      else expect(worst, who).toBeLessThanOrEqual(longestMs)
    }
  },
)

/** The same victims beside a build that means well. */
async function besideBuild() {
  const { project, site } = await attacker()
  const archive = tarGz([
    {
      name: 'package.json',
      data: JSON.stringify({ name: 'x', version: '1.0.0', scripts: { build: 'mkdir dist && echo x > dist/index.html' } }),
    },
  ])
  return await measure(['build'], () => platform.deployArchive(project, site.id, archive))
}

test.each(fillingAttacks)(
  'the victims of "$name" wait at most three times as long as beside a load that means well',
  async (attack: FillingAttack) => {
    const { name, prepare, wellBehaved, victims = [] } = attack
    const beside = (await measure(victims, await wellBehaved(await attacker()))).suffered
    const mostMs = (who: string) => Math.max(quickMs, mostTimes * (beside[who]?.worst ?? 0))
    const slow = (suffered: Record<string, Suffered>) =>
      Object.entries(suffered).filter(([who, { worst }]) => worst > mostMs(who))
    let measured = await measure(victims, await prepare(await attacker()))
    // one slow answer may be the machine's; what the attack does it does again
    if (slow(measured.suffered).length > 0) measured = await measure(victims, await prepare(await attacker()))
    await note(name, measured.tookMs, measured.suffered, beside)
    if (tree !== undefined) return
    expect(slow(measured.suffered)).toEqual([])
    for (const [who, { failed }] of Object.entries(measured.suffered)) expect(failed, who).toEqual({})
  },
)

test.each(countedAttacks)('what "$name" gets is bounded', async ({ name, plan, what, most, count }: CountedAttack) => {
  const counted = await count(await attacker(plan))
  rows.push([name, '', `${what}: ${counted}`, `at most ${most}`, await memorySince()])
  if (tree === undefined) expect(counted, what).toBeLessThanOrEqual(most)
})

test('no process needs more than 600 MiB, and none ends by itself', async () => {
  rows.push(['all of them', '', '', '', roles.map((role) => `${role} ${peaks[role]}`).join(', ')])
  if (tree !== undefined) return
  for (const role of roles) {
    expect(await platform.pidOf(role), role).toBe(pids[role])
    expect(peaks[role], role).toBeLessThanOrEqual(mostMiB)
  }
  expect(platform.lines.join('\n')).not.toContain('starting it again')
})
