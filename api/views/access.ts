import { z } from 'zod'
import { accessModes } from '../../core/access.ts'
import { maxDocuments } from '../../core/documents.ts'
import { maxChannelsPerSite } from '../../core/messengers.ts'
import { paymentProviderNames } from '../../core/payments.ts'
import { type PlanName, planAllows } from '../../core/plans.ts'
import { gatePaths } from '../../core/visits.ts'
import { type Config, siteUrl } from '../../infra/config.ts'
import { type AccessState, mayUseEmailAccess } from '../../services/access/state.ts'
import type { Membership } from '../../services/members/list.ts'
import type { SiteRow } from '../../services/sites/sites.ts'
import { isoTimeOrNull, time } from './fields.ts'

export const SiteAccess = z
  .object({
    closed: z.boolean().describe('Whether visitors have to log in. A lock whose end has come lets nobody in.'),
    mode: z.enum(accessModes).nullable().describe('What closes the site; null while it is open to everybody.'),
    expires_at: time.nullable().describe('When the access ends for everybody; null without an end.'),
    max_opens: z.int().nullable().describe('After so many logins nobody new is let in; null without a limit.'),
    opens_count: z.int().describe('How many logins there were since the site was closed or the counter was reset.'),
    max_seats: z.int().nullable().describe('How many members the site may have; null without a limit.'),
    seats_taken: z.int().describe('How many members are let in: active ones, at a paid site those who have paid.'),
    price: z
      .object({
        amount_minor: z.int(),
        currency: z.string(),
        period_days: z.int().nullable(),
        provider: z.enum(paymentProviderNames),
      })
      .nullable()
      .describe('What members pay while the site is closed to all but paying members; null before set_paid_access.'),
    channels: z.array(z.string()).max(maxChannelsPerSite).describe('The ids of the channels whose subscribers are let in.'),
    emails_count: z.int().describe('How many addresses a code lets in.'),
    brand: z
      .object({
        title: z.string().nullable(),
        description: z.string().nullable(),
        logo_url: z.url().nullable(),
        logo_framed: z.boolean(),
        logo_rounded: z.boolean(),
        favicon_mode: z.enum(['site', 'custom', 'none']),
        favicon_url: z.url().nullable(),
      })
      .describe('How the login page looks.'),
    documents: z
      .array(z.object({ id: z.uuid(), title: z.string(), url: z.string() }))
      .max(maxDocuments)
      .describe('The documents that the login page shows and to which members consent.'),
    entitlements: z
      .object({ password: z.boolean(), email_code: z.boolean() })
      .describe('Which modes the plan, or the option of the site, allows.'),
    updated_at: time.nullable().describe('When the lock was last changed; null while the site is open.'),
  })
  .meta({ id: 'SiteAccess' })

type Site = Pick<SiteRow, 'subdomain' | 'email_access'>

export function accessView(
  config: Config,
  plan: PlanName,
  site: Site,
  state: AccessState,
  { settings, seats_taken, documents }: Membership,
): z.input<typeof SiteAccess> {
  const { lock, emails_count, brand, price } = state
  const { title, description, logo_framed, logo_rounded, favicon_mode } = brand
  const images = siteUrl(config, site.subdomain) + gatePaths.brand
  return {
    closed: lock !== undefined,
    mode: lock?.mode ?? null,
    expires_at: isoTimeOrNull(lock?.expires_at ?? null),
    max_opens: lock?.max_opens ?? null,
    opens_count: lock?.opens_count ?? 0,
    max_seats: settings.max_seats,
    seats_taken,
    price: price ?? null,
    channels: [...state.channels],
    emails_count,
    brand: {
      title,
      description,
      logo_url: brand.logo_sha256 === null ? null : `${images}logo.webp`,
      logo_framed,
      logo_rounded,
      favicon_mode,
      favicon_url: brand.favicon_sha256 === null ? null : `${images}favicon.webp`,
    },
    documents: [...documents],
    entitlements: { password: planAllows(plan, 'password_access'), email_code: mayUseEmailAccess(plan, site) },
    updated_at: isoTimeOrNull(lock?.updated_at ?? null),
  }
}
