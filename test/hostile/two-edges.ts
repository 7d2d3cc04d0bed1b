import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { openEdge } from '../../edge/edge.ts'
import { required } from '../../infra/config.ts'
import { createLogger } from '../../infra/log.ts'
import { type Answer, ask } from '../edge/test-edge.ts'
import type { World } from '../world.ts'

export interface TwoEdges extends AsyncDisposable {
  /** Waits until both edges answer the root of a site as wanted. Answers how many milliseconds that took. */
  shown(subdomain: string, wanted: (answer: Answer) => boolean, headers?: Readonly<Record<string, string>>): Promise<number>
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
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

export const p99 = (values: readonly number[]) =>
  Math.round(values.toSorted((a, b) => a - b)[Math.ceil(values.length * 0.99) - 1] ?? 0)
