import { z } from 'zod'
import { listStuckActivities } from '../../services/stuck-activities.ts'
import { listFailedMessages, retryDeadMessages } from '../../services/workflow-messages.ts'
import { operation } from '../operation.ts'
import { isoTime, isoTimeOrNull, time } from '../views/fields.ts'

const limit = z.int().min(1).max(200).default(50)

const WorkflowMessage = z
  .object({
    id: z.uuid(),
    workflow_id: z.string(),
    signal: z.string().nullable().describe('The name of the signal; null for the start of a workflow.'),
    attempts: z.int().describe('How often Temporal has refused it. It is dead after eight times.'),
    error: z.string().nullable().describe('The latest answer of Temporal.'),
    created_at: time,
    next_attempt_at: time.nullable().describe('Null for a dead one.'),
    dead_at: time.nullable().describe('Since when it is not sent any more; null while it is tried again.'),
  })
  .meta({ id: 'WorkflowMessage' })

const StuckActivity = z
  .object({
    workflow_id: z.string().describe('The workflow, under this id in the Temporal UI.'),
    activity: z.string().describe('The step that fails.'),
    attempts: z.int(),
    error: z.string().describe('The latest error.'),
    first_failed_at: time.describe('When it had failed more than ten times.'),
    last_failed_at: time,
  })
  .meta({ id: 'StuckActivity' })

export const engineOperations = [
  operation({
    id: 'list_workflow_messages',
    title: 'List failed workflow messages',
    summary:
      'Lists the starts of workflows and the signals that Temporal has not accepted, dead ones first. Retry dead ones with retry_workflow_messages when the cause is corrected.',
    tag: 'Operator',
    rest: 'GET /operator/v1/workflow-messages',
    scope: 'full',
    input: z.object({
      dead: z.boolean().optional().describe('Only dead ones, or only those that are tried again.'),
      limit,
    }),
    output: z.array(WorkflowMessage).max(200),
    handler: async (ctx, { dead, limit }) =>
      (await listFailedMessages(ctx.db, { limit, dead })).map(
        ({ last_error, created_at, next_attempt_at, dead_at, ...message }) => ({
          ...message,
          error: last_error,
          created_at: isoTime(created_at),
          next_attempt_at: dead_at ? null : isoTime(next_attempt_at),
          dead_at: isoTimeOrNull(dead_at),
        }),
      ),
  }),
  operation({
    id: 'retry_workflow_messages',
    title: 'Retry dead workflow messages',
    summary: 'Sends dead starts and signals to Temporal again, all or one. Deploys that have failed in the meantime stay failed.',
    tag: 'Operator',
    rest: 'POST /operator/v1/workflow-messages/retry',
    scope: 'full',
    input: z.object({ id: z.uuid().optional().describe('Only this message; all dead ones when it is left out.') }),
    output: z.object({ retried: z.int() }),
    handler: async (ctx, { id }) => ({ retried: await retryDeadMessages(ctx, id) }),
  }),
  operation({
    id: 'list_stuck_activities',
    title: 'List stuck activities',
    summary:
      'Lists the steps of workflows that have failed more than ten times and are tried again, those that have failed for the longest time first.',
    tag: 'Operator',
    rest: 'GET /operator/v1/stuck-activities',
    scope: 'full',
    input: z.object({ limit }),
    output: z.array(StuckActivity).max(200),
    handler: async (ctx, { limit }) =>
      (await listStuckActivities(ctx.db, limit)).map(
        ({ workflow_id, type, attempts, error, first_failed_at, last_failed_at }) => ({
          workflow_id,
          activity: type,
          attempts,
          error,
          first_failed_at: isoTime(first_failed_at),
          last_failed_at: isoTime(last_failed_at),
        }),
      ),
  }),
]
