import type { SearchAttribute } from '../../core/search-attributes.ts'

/** Task queues, one for each kind of worker: `control` has the database, `fetch` a few processes that read repositories, `build` the sandboxes, `report` time for slow forges, `webhook` for slow receivers of webhooks, `payment` for payment providers, `compress` one processor at low priority. */
export const queues = {
  control: 'control',
  fetch: 'fetch',
  build: 'build',
  report: 'report',
  webhook: 'webhook',
  payment: 'payment',
  compress: 'compress',
} as const

/** Signals of workflows. Each says "look again" or reports a fact; a deploy ends well even when they are lost. */
export const signals = {
  /** An earlier build or delivery of the project has ended, so a permit may be free. */
  permit: 'permit',
  /** The deploy was cancelled: end what runs. */
  cancel: 'cancel',
  /** A runner has begun the build. */
  buildStarted: 'buildStarted',
  /** What the workflow waits for has changed in PostgreSQL: restored, cancelled, verified, removed. */
  changed: 'changed',
} as const

/** A signal to send: the content of a row of `workflow_starts`, as a {@link WorkflowStart} is. */
export interface WorkflowSignal<Start extends WorkflowStart = WorkflowStart> {
  readonly workflow_id: string
  readonly signal: (typeof signals)[keyof typeof signals]
  /** Starts the workflow with the signal when it is not running. */
  readonly start?: Start
}

/** A workflow to start: the content of one `workflow_starts` row. Holds ids and names, never a secret. */
export interface WorkflowStart<Type extends string = string, Input extends object = object> {
  readonly workflow_id: string
  /** The name of a workflow's function. */
  readonly type: Type
  readonly input: Input
  /** One line of Markdown for the Temporal UI. */
  readonly summary: string
  /** Instants as RFC 3339. */
  readonly attributes: Readonly<Partial<Record<SearchAttribute, string>>>
}

/** Shortens a name for a summary, whose limit is in bytes: a character may take four. */
export const shortName = (name: string) => name.slice(0, 32)
