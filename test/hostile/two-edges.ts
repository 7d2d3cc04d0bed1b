import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { openEdge } from '../../edge/edge.ts'
import { required } from '../../infra/config.ts'
import { createLogger } from '../../infra/log.ts'
import { type Answer, type Ask, ask } from '../edge/test-edge.ts'
import { type TestProject, type World, type WorldOptions, world } from '../world.ts'

export interface TwoEdges extends AsyncDisposable {
  /** Waits until both edges answer the root of a site as wanted. Answers how many milliseconds that took. */
  shown(subdomain: string, wanted: (answer: Answer) => boolean, headers?: Readonly<Record<string, string>>): Promise<number>
  /** Asks both edges once for the root of a site. */
  askBoth(subdomain: string): Promise<Answer[]>
  /** Asks both edges for the root of a site, over and over. */
  watch(subdomain: string, headers: Readonly<Record<string, string>>): Watch
}

export interface Watch {
  /** Waits until both edges answer with the status, and ends. */
  until(status: number): Promise<Seen[]>
}

/** What one edge has answered. */
export interface Seen {
  /** In order, each as long as it stays the same. */
  readonly statuses: readonly number[]
  /** When the last of them was first answered, as `performance.now` counts. */
  readonly changedAt: number
}

/** A world whose sites two edges serve, and a project in it. */
export interface WorldOfTwoEdges extends AsyncDisposable {
  readonly w: World
  readonly project: TestProject
  readonly edges: TwoEdges
}

export async function worldOfTwoEdges(options?: WorldOptions): Promise<WorldOfTwoEdges> {
  await using opened = new AsyncDisposableStack()
  const w = opened.use(await world(options))
  const project = await w.project('enterprise')
  const edges = opened.use(await openTwoEdges(w))
  const stack = opened.move()
  return { w, project, edges, [Symbol.asyncDispose]: () => stack.disposeAsync() }
}

/** Two edges that follow the database of a world, each with a snapshot of its own. */
export async function openTwoEdges(w: World): Promise<TwoEdges> {
  await using opened = new AsyncDisposableStack()
  const { platformDomain, base: baseUrl, preview: previewUrl } = w.config.urls
  const secretKey = required(w.config.secretKey, 'PLINTH_SECRET_KEY')
  const open = async (name: string) => {
    const certificates = { secretKey, listen: { port: 0 }, isPlatformHost: () => false, isLocalAuthority: false }
    const shared = { platformDomain, baseUrl, previewUrl, databaseUrl: w.database.url, cas: w.cas, certificates }
    const own = { snapshotDir: join(w.dir, name), listen: { port: 0 }, log: createLogger('edge', 'silent') }
    return opened.use(await openEdge({ ...shared, ...own })).port ?? 0
  }
  const ports = [await open('edge-1'), await open('edge-2')]
  async function watchOne(port: number, sent: Ask, isOver: (status: number) => boolean): Promise<Seen> {
    const statuses: number[] = []
    let changedAt = 0
    for (;;) {
      const { status } = await ask(port, '/', sent)
      if (status !== statuses.at(-1)) {
        statuses.push(status)
        changedAt = performance.now()
      }
      if (isOver(status)) return { statuses, changedAt }
      await pause(5)
    }
  }

  const stack = opened.move()
  return {
    async shown(subdomain, wanted, headers = {}) {
      const startedAt = performance.now()
      const host = `${subdomain}.${platformDomain}`
      await Promise.all(
        ports.map(async (port) => {
          while (!wanted(await ask(port, '/', { host, headers }))) await pause(5)
        }),
      )
      return performance.now() - startedAt
    },
    askBoth: (subdomain) => Promise.all(ports.map((port) => ask(port, '/', { host: `${subdomain}.${platformDomain}` }))),
    watch(subdomain, headers) {
      let last: number | undefined
      const sent = { host: `${subdomain}.${platformDomain}`, headers }
      const seen = Promise.all(ports.map((port) => watchOne(port, sent, (status) => status === last)))
      return {
        until(status) {
          last = status
          return seen
        },
      }
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

/** In whole milliseconds. */
export const quantile = (values: readonly number[], share: number) =>
  Math.round(values.toSorted((a, b) => a - b)[Math.ceil(values.length * share) - 1] ?? 0)

export const p99 = (values: readonly number[]) => quantile(values, 0.99)
