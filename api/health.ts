import { isDatabaseAway } from '../infra/db/errors.ts'
import { pingDatabase } from '../infra/db/health.ts'
import { countStuckActivities } from '../services/stuck-activities.ts'
import { countDeadMessages } from '../services/workflow-messages.ts'
import type { Deps } from './context.ts'

export interface Readiness {
  /** Whether requests can be served. They can be without Temporal, while deploys wait. */
  readonly ready: boolean
  readonly dependencies: Readonly<Record<'database' | 'temporal', 'up' | 'down'>>
}

/** Faults for the operator that do not keep requests from being served. Undefined while PostgreSQL is away. */
export async function attention({ db }: Pick<Deps, 'db'>) {
  try {
    const [dead_workflow_messages, stuck_activities] = await Promise.all([countDeadMessages(db), countStuckActivities(db)])
    return { dead_workflow_messages, stuck_activities }
  } catch (error) {
    if (isDatabaseAway(error)) return undefined
    throw error
  }
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
