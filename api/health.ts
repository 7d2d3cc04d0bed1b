import { pingDatabase } from '../infra/db/health.ts'
import type { Deps } from './context.ts'

export interface Readiness {
  /** Whether requests can be served. They can be without Temporal, while deploys wait. */
  readonly ready: boolean
  readonly dependencies: Readonly<Record<'database' | 'temporal', 'up' | 'down'>>
}

export async function readiness({ db, workflows }: Pick<Deps, 'db' | 'workflows'>): Promise<Readiness> {
  const [database, temporal] = await Promise.all([state(pingDatabase(db)), state(workflows.ping())])
  return { ready: database === 'up', dependencies: { database, temporal } }
}

const state = (ping: Promise<void>) =>
  ping.then(
    () => 'up' as const,
    () => 'down' as const,
  )
