import { z } from 'zod'
import { logoPath, maxDeliveryFiles } from '../../core/delivery-files.ts'
import { lowestPlanWith, type PlanName, planAllows, planNames } from '../../core/plans.ts'
import { type Config, siteUrl } from '../../infra/config.ts'
import type { DeliveryFile } from '../../services/autoreply/delivery-files.ts'
import type { DeliveryPage } from '../../services/autoreply/delivery-page.ts'
import type { AutoreplySettings } from '../../services/autoreply/settings.ts'
import { isoTime, time } from './fields.ts'

const file = z.object({
  id: z.uuid(),
  name: z.string().describe('The name under which visitors save it.'),
  label: z.string().nullable().describe('What the page shows instead of the name.'),
  size: z.int().describe('Bytes.'),
  content_type: z.string().describe('From the bytes, never from the name.'),
  downloads: z.int().describe('Complete downloads; they are counted within seconds.'),
  created_at: time,
})

const delivery = z.object({
  link_ttl_days: z.int().describe('How many days the links to the files open.'),
  page_title: z.string().nullable(),
  upsell_text: z.string().nullable(),
  page_logo_url: z.url().nullable(),
  page_logo_framed: z.boolean(),
  page_logo_rounded: z.boolean(),
})

export const Autoreply = z
  .object({
    enabled: z.boolean(),
    subject: z.string(),
    body: z.string(),
    email_field: z.string().describe('The field of the form that holds the address.'),
    files: z.array(file).max(maxDeliveryFiles),
    delivery,
    entitled: z.boolean().describe('Whether the plan has auto-replies; nothing is sent otherwise.'),
    required_plan: z.enum(planNames).describe('The lowest plan that has them.'),
    emails_sent_this_month: z.int().describe('Replies of all sites of the project in this UTC calendar month.'),
    emails_limit: z.int().nullable().describe('Replies that the plan allows in a month; null is unlimited.'),
  })
  .meta({ id: 'Autoreply' })

/** The auto-reply of a site, with what counts for its project. */
export interface ShownAutoreply {
  readonly config: Config
  readonly subdomain: string
  readonly settings: AutoreplySettings
  readonly files: readonly DeliveryFile[]
  readonly page: DeliveryPage
  readonly plan: PlanName
  readonly sent: number
  readonly limit: number | null
}

export const autoreplyView = ({ settings, plan, sent, limit, ...delivered }: ShownAutoreply): z.input<typeof Autoreply> => ({
  ...settings,
  files: delivered.files.map(fileView),
  delivery: deliveryView(delivered),
  entitled: planAllows(plan, 'autoreply'),
  required_plan: lowestPlanWith('autoreply'),
  emails_sent_this_month: sent,
  emails_limit: limit,
})

const fileView = ({ id, name, label, size, content_type, downloads, created_at }: DeliveryFile): z.input<typeof file> => ({
  id,
  name,
  label,
  size,
  content_type,
  downloads,
  created_at: isoTime(created_at),
})

function deliveryView({ config, subdomain, page }: Pick<ShownAutoreply, 'config' | 'subdomain' | 'page'>) {
  const { logo_sha256, logo_size: _size, ...shown } = page
  const page_logo_url = logo_sha256 === null ? null : `${siteUrl(config, subdomain)}${logoPath(logo_sha256)}`
  return { ...shown, page_logo_url } satisfies z.input<typeof delivery>
}
