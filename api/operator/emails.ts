import { z } from 'zod'
import { type EmailRow, readEmails } from '../../services/emails/emails.ts'
import { Listing } from '../listing.ts'
import { operation } from '../operation.ts'
import { isoTime, isoTimeOrNull, time } from '../views/fields.ts'

const Email = z
  .object({
    id: z.uuid(),
    kind: z.string().describe('The kind of the email, such as subdomain_change.'),
    to: z.string(),
    from: z.string(),
    subject: z.string(),
    text: z.string(),
    html: z.string(),
    created_at: time,
    sent_at: time.nullable().describe('Null while it is being sent, and for good when it was kept or refused.'),
    outcome: z.enum(['sent', 'kept', 'failed']).nullable(),
    suppressed: z
      .int()
      .describe('How many later emails of this kind about the same thing were not sent, because there were too many in an hour.'),
  })
  .meta({ id: 'Email' })

export const emailOperations = [
  operation({
    id: 'list_emails',
    title: 'List emails',
    summary:
      'Lists the emails of the platform, newest first, including those that no mail server has accepted. Each is kept for 30 days; one with a login code for a day, without its text as soon as it is sent.',
    tag: 'Operator',
    rest: 'GET /operator/v1/mails',
    scope: 'full',
    input: z.object({
      to: z.string().max(254).optional().describe('Only the emails to this address.'),
      limit: z.int().min(1).max(200).default(50),
    }),
    output: z.array(Email),
    lists: [{ key: 'id' }],
    handler: async (ctx, { to, limit }) => Listing.of(readEmails(ctx.db, { to, limit }), (rows) => rows.map(emailView)),
  }),
]

const emailView = ({ id, kind, sender, recipient, subject, text, html, outcome, suppressed, ...at }: EmailRow) => ({
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
})
