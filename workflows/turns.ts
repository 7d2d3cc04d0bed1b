import type { Tx } from '../infra/db/database.ts'
import { grantTurns, type Permits } from '../services/builds/permits.ts'
import { insertWorkflowSignals } from '../services/workflow-messages.ts'
import { turnSignal } from './contract.ts'

/**
 * Gives the free permits of a project to its waiting builds and signals their workflows, besides the one of `asking`. The caller holds
 * the project's lock and wakes the relay after the commit.
 */
export async function giveTurns(tx: Tx, project: TurnsOfProject, now: Date, asking?: string): Promise<void> {
  const granted = await grantTurns(tx, project.id, permitsOf(project.cap), now, asking ?? null)
  await insertWorkflowSignals(tx, granted.filter((deploy) => deploy.deploy_id !== asking).map(turnSignal))
}

/** So that a repository that does not answer holds up no other site of its project, as long as no other project fetches. */
const fetchesPerProject = 2

/** @param builds of a project that may be handed out at once */
export const permitsOf = (builds: number): Permits => ({ builds, fetches: fetchesPerProject })

export interface TurnsOfProject {
  readonly id: string
  /** Builds of the project that may be handed out at once. */
  readonly cap: number
}
