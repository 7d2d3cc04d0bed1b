import { z } from 'zod'
import { listMails } from '../../services/emails/emails.ts'
import { operation } from '../operation.ts'
import { isoTime, isoTimeOrNull, time } from '../views/fields.ts'

const Mail = z
  .object({
    id: z.uuid(),
    kind: z.string().describe('What it tells the owner, such as subdomain_change.'),
    to: z.string(),
    from: z.string(),
    subject: z.string(),
    text: z.string(),
    html: z.string(),
    created_at: time,
    sent_at: time.nullable().describe('Null while it is on its way, and for good when it was kept or refused.'),
    outcome: z.enum(['sent', 'kept', 'failed']).nullable(),
    suppressed: z
      .int()
      .describe('Later mails of this kind about the same thing that were not sent, because there were too many in an hour.'),
  })
  .meta({ id: 'Mail' })

export const mailOperations = [
  operation({
    id: 'list_mails',
    title: 'List mails',
    summary: 'Mails of the platform, newest first, also those that no mail server has taken. Each is kept for 30 days.',
    tag: 'Operator',
    rest: 'GET /operator/v1/mails',
    scope: 'full',
    input: z.object({
      to: z.string().max(254).optional().describe('Only those to this address.'),
      limit: z.int().min(1).max(200).default(50),
    }),
    output: z.array(Mail),
    handler: async (ctx, { to, limit }) =>
      (await listMails(ctx.db, { to, limit })).map(
        ({ id, kind, sender, recipient, subject, text, html, outcome, suppressed, ...at }) => ({
          id,
          kind,
          to: recipient,
          from: sender,
          subject,
          text,
          html,
          created_at: isoTime(at.created_at),
          sent_at: isoTimeOrNull(at.sent_at),
          outcome,
          suppressed,
        }),
      ),
  }),
]
