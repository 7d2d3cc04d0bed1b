import { z } from 'zod'
import { maxAutoreplyBodyLength, maxAutoreplySubjectLength, maxEmailFieldLength } from '../../core/limits.ts'
import { listDeliveryFiles } from '../../services/autoreply/delivery-files.ts'
import { findDeliveryPage } from '../../services/autoreply/delivery-page.ts'
import { findAutoreply, repliesSent, requirePlanForAutoreply, setAutoreply } from '../../services/autoreply/settings.ts'
import { suspended } from '../../services/projects/projects.ts'
import type { SiteRow } from '../../services/sites/sites.ts'
import type { Context } from '../context.ts'
import { operation } from '../operation.ts'
import { Autoreply, autoreplyView } from '../views/autoreply.ts'
import { boundedText, oneLine, requireLength, site_id } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'

const tag = 'Auto-reply'

/** The auto-reply of the site as it is now: every write of it returns this. */
export async function shownAutoreply(
  { db, caller, config, clock }: Context,
  { id, subdomain }: Pick<SiteRow, 'id' | 'subdomain'>,
) {
  return autoreplyView({
    config,
    subdomain,
    settings: await findAutoreply(db, id),
    files: await listDeliveryFiles(db, id),
    page: await findDeliveryPage(db, id),
    plan: caller.plan,
    sent: await repliesSent(db, caller.project_id, clock()),
    limit: config.plans[caller.plan].autoreply_mails_per_month,
  })
}

export const get_autoreply = operation({
  id: 'get_autoreply',
  title: 'Get the auto-reply of a site',
  summary: 'Gets the email that visitors who post a form of the site get in reply, and how many were sent this month.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/autoreply',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: Autoreply,
  handler: (ctx, _input, site) => shownAutoreply(ctx, site),
})

export const set_autoreply = operation({
  id: 'set_autoreply',
  title: 'Set the auto-reply of a site',
  summary:
    'Replaces the email that visitors who post a form of the site get in reply: what is left out becomes empty. {{field_name}} stands for a field of the form.',
  tag,
  rest: 'PUT /api/v1/sites/{site_id}/autoreply',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({
    site_id,
    enabled: z.boolean(),
    subject: oneLine(boundedText(maxAutoreplySubjectLength), maxAutoreplySubjectLength)
      .default('')
      .describe('One line; without it, the name of the site.'),
    body: boundedText(maxAutoreplyBodyLength)
      .default('')
      .describe(
        'Markdown with bold and italic text, lists, quotes and links. While it is empty, visitors get only the link to the files of the site; nothing is sent if it has none.',
      ),
    email_field: boundedText(maxEmailFieldLength)
      .default('')
      .describe('The field of the form that holds the address; without it, email.'),
  }),
  example: { enabled: true, subject: 'Thank you, {{name}}', body: 'We have **your message** and answer within two days.' },
  load: siteOfCaller,
  output: Autoreply,
  errors: [400, 402, 409],
  handler: async (ctx, { site_id: _id, ...settings }, site) => {
    requireLength('subject', settings.subject, maxAutoreplySubjectLength)
    requireLength('body', settings.body, maxAutoreplyBodyLength)
    requireLength('email_field', settings.email_field, maxEmailFieldLength)
    if (settings.enabled && ctx.caller.suspended) throw suspended(ctx.caller)
    if (settings.enabled) requirePlanForAutoreply(ctx.caller.plan)
    await setAutoreply(ctx, site, settings)
    return shownAutoreply(ctx, site)
  },
})
