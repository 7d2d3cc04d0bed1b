import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { deployFiles, makeSite, page } from '../make.ts'
import type { TestProject, World } from '../world.ts'

export interface Kills {
  /** Answered. */
  readonly visits: number
  /** Pages of a deploy before the one whose activation had been answered when the visit began. */
  readonly older: number
  /** Pages of a site from which the edge had shut its visitors out before it was killed. */
  readonly open: number
  /** Pages of a site that was in the trash before the edge was started. */
  readonly removed: number
  /** In milliseconds. */
  readonly slowestVisit: number
}

interface Site {
  readonly id: string
  readonly subdomain: string
}

const sides = 8
const visitors = 3
/** A site is removed with every so many kills. */
const killsPerRemoval = 5
/** What has changed this shortly before is in no snapshot yet. */
const activationEveryMs = 250

/**
 * Kills an edge over and over while one site gets another deploy again and again, another one is closed right before each kill, and one that the
 * snapshot knows is removed while no edge runs. Visitors come all the time.
 */
export async function killEdge(w: World, project: TestProject, kills: number): Promise<Kills> {
  await using opened = new AsyncDisposableStack()
  const call = async (endpoint: string, json?: object) => {
    const { status, body } = await w.call(endpoint, { key: project.key, ...(json && { json }) })
    if (status !== 200) throw new Error(`${endpoint}: ${status} ${JSON.stringify(body)}`)
  }
  const socketPath = join(w.dir, 'killed-edge.sock')
  const counts = { visits: 0, older: 0, open: 0, removed: 0, slowestVisit: 0 }

  async function siteOf(...contents: string[]): Promise<Site & { readonly deploys: readonly string[] }> {
    const { id, subdomain } = await makeSite(w, project)
    const deploys: string[] = []
    for (const content of contents) deploys.push((await deployFiles(w, project, id, [page(content)])).id)
    return { id, subdomain, deploys }
  }
  /** Undefined while no edge takes connections. */
  async function visit({ subdomain }: Site): Promise<{ readonly status: number; readonly body: string } | undefined> {
    const startedAt = performance.now()
    try {
      const headers = { host: `${subdomain}.${w.config.urls.platformDomain}` }
      const outgoing = request({ socketPath, headers, agent: false }).end()
      const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
      const answer = { status: response.statusCode ?? 0, body: await text(response) }
      counts.visits += 1
      counts.slowestVisit = Math.max(counts.slowestVisit, Math.round(performance.now() - startedAt))
      return answer
    } catch {
      return undefined
    }
  }
  async function until(site: Site, status: number): Promise<void> {
    while ((await visit(site))?.status !== status) await pause(5)
  }

  const busy = await siteOf(...Array.from({ length: sides }, (_, side) => `side ${side}.`))
  const closing = await siteOf('for members')
  const { platformDomain, base: baseUrl, preview: previewUrl } = w.config.urls
  const options = { platformDomain, baseUrl, previewUrl, databaseUrl: w.database.url, listen: { path: socketPath } }
  const args = [JSON.stringify(options), w.config.storage.url, join(w.dir, 'killed-edge')]
  function start(): ChildProcess {
    const edge = fork(join(import.meta.dirname, 'edge-process.ts'), args)
    opened.defer(() => void edge.kill('SIGKILL'))
    return edge
  }

  const over = new AbortController()
  let asked = sides - 1
  let acknowledged = asked
  async function activateOn(): Promise<void> {
    while (!over.signal.aborted) {
      asked += 1
      await call(`POST /api/v1/deploys/${busy.deploys[asked % sides]}/activate`)
      acknowledged = asked
      await pause(activationEveryMs)
    }
  }
  let isClosed = false
  async function visitOn(): Promise<void> {
    while (!over.signal.aborted) {
      const oldest = acknowledged
      const answer = await visit(busy)
      const side = Number(/side (\d)\./.exec(answer?.body ?? '')?.[1] ?? Number.NaN)
      const permitted = Array.from({ length: asked - oldest + 1 }, (_, i) => (oldest + i) % sides)
      if (answer?.status === 200 && !permitted.includes(side)) counts.older += 1
      const wasClosed = isClosed
      if ((await visit(closing))?.status === 200 && wasClosed && isClosed) counts.open += 1
      await pause(20)
    }
  }

  let edge = start()
  await until(busy, 200)
  const running = [activateOn(), ...Array.from({ length: visitors }, visitOn)]
  try {
    for (let kill = 0; kill < kills; kill++) {
      const removed = kill % killsPerRemoval === 0 ? await siteOf('to be removed') : undefined
      if (removed) await until(removed, 200)
      // in the snapshot by now
      await pause(1200)
      await call(`POST /api/v1/sites/${closing.id}/access/email-mode`, {})
      await until(closing, 401)
      isClosed = true
      edge.kill('SIGKILL')
      await once(edge, 'exit')
      if (removed) await call(`DELETE /api/v1/sites/${removed.id}`)
      edge = start()
      for (let answered = 0; answered < 5; ) {
        const answer = await visit(removed ?? closing)
        if (answer) answered += 1
        else await pause(5)
        if (removed && answer?.status === 200) counts.removed += 1
      }
      isClosed = false
      await call(`DELETE /api/v1/sites/${closing.id}/access`)
      await until(closing, 200)
    }
  } finally {
    over.abort()
    await Promise.all(running)
  }
  return counts
}
