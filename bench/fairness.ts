import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { json } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { apiOnSocket } from '../infra/local/api-client.ts'
import type { Stack } from '../infra/local/stack.ts'
import { tarGz } from '../test/infra/archives.ts'
import { withStack } from './stack.ts'

// When project A has queued forty builds and there is one slot, how long does project B wait with its three?
//   npm run bench fairness
// The excess of B's k-th build is how many builds began before it, beyond those that had begun when it was accepted. Fair is at most 2·k.

const many = 40
const few = 3
const archive = tarGz([{ name: 'index.html', data: '<!doctype html><title>x</title>' }])

interface Sent {
  readonly id: string
  readonly key: string
}

async function openProject({ config }: Stack, name: string) {
  const call = apiOnSocket(config.sockets.api)
  const operator = config.operatorToken ?? ''
  const owner = { name, owner_email: 'bench@example.com', plan: 'enterprise' }
  const project = (await call('POST /operator/v1/projects', operator, owner)).body
  const { key } = (await call(`POST /operator/v1/projects/${project.id}/keys`, operator, { name, scope: 'full' })).body
  return {
    /** Sends one build to each of `count` new sites: builds of one site would wait for each other. */
    async queueBuilds(count: number): Promise<Sent[]> {
      const sites: string[] = []
      for (let i = 0; i < count; i++) {
        const subdomain = `bench-${randomUUID()}`
        sites.push((await call('POST /api/v1/sites', key, { name: `${name} ${i}`, subdomain })).body.id)
      }
      const sent: Sent[] = []
      for (const site of sites) sent.push({ id: await upload(config.sockets.api, site, key), key })
      return sent
    },
  }
}

async function upload(socketPath: string, site: string, key: string): Promise<string> {
  const headers = { host: 'localhost', authorization: `Bearer ${key}`, 'content-type': 'application/gzip' }
  const outgoing = request({ socketPath, method: 'POST', path: `/api/v1/sites/${site}/deploys`, headers }).end(archive)
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  const body = (await json(response)) as { id?: string }
  if (!body.id) throw new Error(JSON.stringify(body))
  return body.id
}

/** When each build was accepted and began, in milliseconds; waits until all have ended. */
async function times({ config }: Stack, builds: readonly Sent[]): Promise<{ accepted: number; began: number }[]> {
  const call = apiOnSocket(config.sockets.api)
  const all: { accepted: number; began: number }[] = []
  for (const { id, key } of builds) {
    for (;;) {
      const { body } = await call(`GET /api/v1/deploys/${id}`, key)
      if (body.status === 'failed') throw new Error(body.error)
      if (body.finished_at) {
        all.push({ accepted: Date.parse(body.created_at), began: Date.parse(body.started_at) })
        break
      }
      await pause(200)
    }
  }
  return all
}

async function race(stack: Stack, what: string, isOneProject: boolean): Promise<void> {
  const a = await openProject(stack, 'A')
  const b = isOneProject ? a : await openProject(stack, 'B')
  const crowd = await a.queueBuilds(many)
  const late = await b.queueBuilds(few)
  const [crowdTimes, lateTimes] = [await times(stack, crowd), await times(stack, late)]
  const all = [...crowdTimes, ...lateTimes]
  const excess = lateTimes
    .toSorted((x, y) => x.began - y.began)
    .map(({ accepted, began }) => {
      const before = (instant: number) => all.filter((build) => build.began < instant).length
      return before(began) - before(accepted)
    })
  const waiting = crowdTimes.filter((build) => build.began > Math.max(...lateTimes.map((one) => one.accepted))).length
  const isFair = excess.every((count, index) => count <= 2 * (index + 1))
  process.stdout.write(
    `${what.padEnd(42)} excess ${excess.join(' / ')} behind ${waiting} waiting: ${isFair ? 'fair' : 'not fair'}\n`,
  )
}

const oneSlot = { PLINTH_BUILD_SLOTS: '1' }
await withStack((stack) => race(stack, 'as it is: permits and fairness in the queue', false), oneSlot)
await withStack(
  async (stack) => {
    await race(stack, 'without permits: fairness in the queue only', false)
    await race(stack, 'without either: one queue for all', true)
  },
  { ...oneSlot, PLINTH_BUILDS_PER_PROJECT: '256' },
)
