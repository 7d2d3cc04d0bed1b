import { z } from 'zod'
import { unprocessable } from '../../core/errors.ts'
import { maxNotifications } from '../../core/notifications.ts'
import { countUnread, listNotifications, markRead } from '../../services/notifications/notifications.ts'
import { Listing } from '../listing.ts'
import { operation } from '../operation.ts'
import { Ok } from '../views/fields.ts'
import { Notification, notificationView } from '../views/notification.ts'

const tag = 'Notifications'

const clamped = (given: number, least: number, most: number) => Math.min(Math.max(given, least), most)

export const list_notifications = operation({
  id: 'list_notifications',
  title: 'List notifications',
  summary:
    'Lists what the owner of the project should know, newest first: failed deploys, form submissions, and news of domains, certificates and webhooks.',
  tag,
  rest: 'GET /api/v1/notifications',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({
    unread: z.boolean().default(false).describe('true lists only those that were not marked as read.'),
    limit: z.int().default(50).describe('Clamped to 1 to 200.'),
    offset: z.int().default(0).describe('How many of the newest are left out.'),
  }),
  output: z
    .object({
      unread: z.int().describe('How many of all were not marked as read.'),
      notifications: z.array(Notification),
    })
    .meta({ id: 'Notifications' }),
  lists: [{ member: 'notifications', key: 'id' }],
  handler: async ({ db, caller: { project_id } }, { unread: only, ...given }) => {
    const page = { unread: only, limit: clamped(given.limit, 1, 200), offset: clamped(given.offset, 0, maxNotifications) }
    const [unread, rows] = await Promise.all([countUnread(db, project_id), listNotifications(db, project_id, page)])
    return { unread, notifications: Listing.ofRows(rows.map(notificationView), undefined) }
  },
})

export const read_notifications = operation({
  id: 'read_notifications',
  title: 'Mark notifications as read',
  summary: 'Marks the named notifications as read, or all of them. Unknown ids are ignored.',
  tag,
  rest: 'POST /api/v1/notifications/read',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({
    ids: z.array(z.uuid()).min(1).max(maxNotifications).optional(),
    all: z.literal(true).optional().describe('Instead of ids.'),
  }),
  example: { all: true },
  output: Ok,
  handler: async (ctx, { ids, all }) => {
    if ((ids === undefined) === (all === undefined)) throw unprocessable('give either ids or all: true')
    await markRead(ctx, ctx.caller.project_id, ids)
    return { ok: true as const }
  },
})
