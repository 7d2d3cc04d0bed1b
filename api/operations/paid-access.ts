import { z } from 'zod'
import { currencies, maxAmountMinor, maxPeriodDays, paymentProviderNames } from '../../core/payments.ts'
import { setPaidAccess } from '../../services/payments/price.ts'
import { operation } from '../operation.ts'
import { SiteAccess } from '../views/access.ts'
import { site_id } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'
import { shownAccess } from './access.ts'

export const set_paid_access = operation({
  id: 'set_paid_access',
  title: 'Close a site to all but paying members',
  summary:
    'Closes a site to all but members who have paid, or changes the price. A switch signs out everybody; members keep what they have paid for.',
  tag: 'Access',
  rest: 'POST /api/v1/sites/{site_id}/access/paid-mode',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({
    site_id,
    amount_minor: z
      .int()
      .min(1)
      .max(maxAmountMinor)
      .describe('The price in the smallest unit of the currency: 49900 is 499 roubles, or 49,900 yen.'),
    currency: z.enum(currencies).describe('ISO 4217, in upper case.'),
    period_days: z.int().min(1).max(maxPeriodDays).nullable().describe('How long a payment is for; null for ever.'),
    provider: z
      .enum(paymentProviderNames)
      .describe(
        'Who takes the payment. manual: you do, and approve the member. The others are there when the operator of the platform has configured them.',
      ),
  }),
  example: { amount_minor: 49_900, currency: 'RUB', period_days: 30, provider: 'manual' },
  load: siteOfCaller,
  requires: 'paid_access',
  whenSuspended: 'refuse',
  whenTrashed: 'refuse',
  output: SiteAccess,
  errors: [402, 409],
  handler: async (ctx, { amount_minor, currency, period_days, provider }, site) => {
    await setPaidAccess(ctx, site, { amount_minor, currency, period_days, provider })
    return shownAccess(ctx, site)
  },
})
