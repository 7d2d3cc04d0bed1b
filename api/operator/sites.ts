import { z } from 'zod'
import { setEmailOption } from '../../services/access/email-option.ts'
import { operation } from '../operation.ts'
import { site_id } from '../views/fields.ts'

export const siteOperations = [
  operation({
    id: 'update_site_options',
    title: 'Update the options of a site',
    summary:
      'Lets a site be closed with emailed codes on any plan, or ends that option. A site that is closed with codes stays so; only closing it again is refused.',
    tag: 'Operator',
    rest: 'PATCH /operator/v1/sites/{site_id}',
    scope: 'full',
    input: z.object({ site_id, email_access: z.boolean() }),
    example: { email_access: true },
    output: z
      .object({ id: z.uuid(), project_id: z.uuid(), name: z.string(), subdomain: z.string(), email_access: z.boolean() })
      .meta({ id: 'SiteOptions' }),
    handler: (ctx, { site_id, email_access }) => setEmailOption(ctx, site_id, email_access),
  }),
]
