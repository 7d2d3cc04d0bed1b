import { z } from 'zod'
import { cancelSubdomainChange, requestSubdomainChange } from '../../services/sites/subdomain-changes.ts'
import { operation } from '../operation.ts'
import { readSubdomain, subdomainField } from '../subdomains.ts'
import { isoTime, site_id, time } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'

const tag = 'Sites'

const SubdomainChange = z
  .object({
    site_id: z.uuid(),
    subdomain: z.string().describe('The current subdomain.'),
    pending_subdomain: z.string().nullable().describe('The next subdomain; null, like the times, when no change is pending.'),
    requested_at: time.nullable(),
    switch_at: time.nullable(),
  })
  .meta({ id: 'SubdomainChange' })

export const change_site_subdomain = operation({
  id: 'change_site_subdomain',
  title: 'Change the subdomain',
  summary:
    'Reserves another subdomain for a site, which moves there at switch_at; the old address then redirects for 30 days. Allowed once in 7 days. The owner of the project gets an email.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/subdomain-change',
  tool: { confirm: true },
  scope: 'full',
  input: z.object({ site_id, subdomain: subdomainField }),
  example: { subdomain: 'river-notes' },
  load: siteOfCaller,
  output: SubdomainChange,
  errors: [400, 402, 409, 429],
  handler: async (ctx, { site_id, subdomain }, site) => {
    const change = await requestSubdomainChange(ctx, site, readSubdomain(subdomain))
    return {
      site_id,
      subdomain: change.old_subdomain,
      pending_subdomain: change.new_subdomain,
      requested_at: isoTime(change.requested_at),
      switch_at: isoTime(change.switch_at),
    }
  },
})

export const cancel_site_subdomain_change = operation({
  id: 'cancel_site_subdomain_change',
  title: 'Cancel the change of the subdomain',
  summary: 'Cancels a change of the subdomain before switch_at: the site keeps its address, and the reserved name is released.',
  tag,
  rest: 'DELETE /api/v1/sites/{site_id}/subdomain-change',
  tool: {},
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: SubdomainChange,
  errors: [409],
  handler: async (ctx, { site_id }, site) => {
    const subdomain = await cancelSubdomainChange(ctx, site)
    return { site_id, subdomain, pending_subdomain: null, requested_at: null, switch_at: null }
  },
})
