import { z } from 'zod'
import { notificationKinds } from '../../core/notifications.ts'
import type { NotificationRow } from '../../services/notifications/notifications.ts'
import { writtenBy } from './authors.ts'
import { isoTime, isoTimeOrNull, time } from './fields.ts'

export const Notification = z
  .object({
    id: z.uuid(),
    kind: z.enum(notificationKinds),
    title: writtenBy(['visitors', 'sources', 'servers'], z.string().describe('One line.')),
    message: writtenBy(
      ['visitors', 'sources', 'servers'],
      z.string().describe('What has happened and what to do, as plain text.'),
    ),
    site_id: z.uuid().nullable().describe('The site that it is about, which may be gone.'),
    deploy_id: z.uuid().nullable().describe('The deploy that it is about, which may be gone.'),
    created_at: time,
    read_at: time.nullable().describe('When it was marked as read.'),
  })
  .meta({ id: 'Notification' })

export const notificationView = (row: NotificationRow): z.input<typeof Notification> => ({
  id: row.id,
  kind: row.kind,
  title: row.title,
  message: row.message,
  site_id: row.site_id,
  deploy_id: row.deploy_id,
  created_at: isoTime(row.created_at),
  read_at: isoTimeOrNull(row.read_at),
})
