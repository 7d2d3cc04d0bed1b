import { z } from 'zod'
import { deployStatuses } from '../../core/deploy.ts'
import { unavailable, unprocessable } from '../../core/errors.ts'
import { readLogText } from '../../infra/build-logs/text.ts'
import { hasWholeLog } from '../follow-logs.ts'
import { operation } from '../operation.ts'
import { writtenBy } from '../views/authors.ts'
import { deployOfCaller } from '../views/deploy.ts'
import { deploy_id } from '../views/fields.ts'

const KiB = 1024

export const get_logs = operation({
  id: 'get_logs',
  title: 'Read a build log',
  summary:
    'Reads the output of a build from a byte offset; secrets are masked. Continue at next_offset until done. A log is kept for 90 days. With follow=true REST streams it as server-sent events: log {text, next_offset}, status {status} and finally end {status, error}.',
  tag: 'Deploys',
  rest: 'GET /api/v1/deploys/{deploy_id}/logs',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({
    deploy_id,
    offset: z.int().min(0).default(0).describe('The byte of the log at which to begin.'),
    limit: z
      .int()
      .min(1)
      .max(1024 * KiB)
      .default(64 * KiB)
      .describe('The most bytes to return; a character is never split.'),
  }),
  load: deployOfCaller,
  output: z
    .object({
      deploy_id: z.uuid(),
      status: z.enum(deployStatuses),
      text: writtenBy('sources', z.string().describe('Empty for files that were published without a build.')),
      next_offset: z.int().describe('The offset for the next call.'),
      done: z.boolean().describe('Whether the build has ended and the whole log was read.'),
    })
    .meta({ id: 'BuildLog' }),
  errors: [429],
  handler: async (ctx, { offset, limit }, deploy) => {
    const ended = hasWholeLog(deploy)
    await ctx.freshness.untilServed([deploy], ctx.leaving)
    try {
      const { text, next_offset, atEnd } = await readLogText(ctx.buildLogs, deploy.id, { offset, limit, ended })
      return { deploy_id: deploy.id, status: deploy.status, text, next_offset, done: ended && atEnd }
    } catch (error) {
      ctx.log.error({ err: error, deploy_id: deploy.id }, 'build log unreadable')
      throw unavailable('the storage does not answer; try again in a few seconds')
    }
  },
  events: (ctx, { offset, limit }, deploy, { signal, lastEventId }) =>
    ctx.logFollowers.follow(deploy, { offset: lastEventId === undefined ? offset : offsetOf(lastEventId), limit, signal }),
})

/** @throws AppError `unprocessable` */
function offsetOf(lastEventId: string): number {
  if (!/^\d{1,15}$/.test(lastEventId)) throw unprocessable('Last-Event-ID must be the id of an event of this log')
  return Number(lastEventId)
}
