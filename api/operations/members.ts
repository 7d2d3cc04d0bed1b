import { z } from 'zod'
import { invalid, unprocessable } from '../../core/errors.ts'
import { memberActions } from '../../core/members.ts'
import { currencies, maxAmountMinor } from '../../core/payments.ts'
import { getMember, listMembers, readEmailsTo, readMembers, readMembership, readPayments } from '../../services/members/list.ts'
import { deleteMember, moderateMember, type OwnersPayment } from '../../services/members/moderate.ts'
import type { SiteRow } from '../../services/sites/sites.ts'
import type { Context } from '../context.ts'
import { Listing } from '../listing.ts'
import { operation } from '../operation.ts'
import { site_id, text } from '../views/fields.ts'
import {
  ExportedMember,
  emailView,
  exportView,
  Member,
  memberView,
  paymentView,
  SiteMembers,
  settingsView,
} from '../views/members.ts'
import { siteOfCaller } from '../views/site.ts'

const tag = 'Access'
const maxQueryLength = 200
const maxLimit = 200
const maxOffset = 10_000
const member_id = z.uuid().describe('Id of the member.')

export const get_site_members = operation({
  id: 'get_site_members',
  title: 'List the members of a site',
  summary:
    'Lists the members of a site, newest first, with how many there are of each status, the seats that are taken, the settings and the documents.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/members',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({
    site_id,
    q: text(maxQueryLength).optional().describe('A part of the address or of the name, in any case.'),
    limit: z.int().default(50).describe('1 to 200; other numbers mean the nearest of these.'),
    offset: z.int().default(0).describe('How many to leave out; a negative number means 0.'),
  }),
  load: siteOfCaller,
  output: SiteMembers,
  lists: [{ member: 'items', key: 'id' }],
  handler: async ({ db, clock }, { site_id, q, ...page }) => {
    const limit = Math.min(Math.max(page.limit, 1), maxLimit)
    const offset = Math.min(Math.max(page.offset, 0), maxOffset)
    const { sizes, total } = await listMembers(db, site_id, { q: q?.trim(), limit, offset })
    const { counters, seats_taken, settings, documents } = await readMembership(db, site_id, clock())
    return {
      items: Listing.of(readMembers(db, site_id, sizes), (rows) => rows.map(memberView)),
      total,
      limit,
      offset,
      counters,
      seats: { taken: seats_taken, max: settings.max_seats },
      settings: settingsView(settings),
      documents: [...documents],
    }
  },
})

const payment = {
  amount_minor: z
    .int()
    .min(1)
    .max(maxAmountMinor)
    .optional()
    .describe(
      'What the member has paid you, in the smallest unit of the currency: for approving at a paid site whose provider is manual.',
    ),
  currency: z.enum(currencies).optional().describe('Together with amount_minor: ISO 4217, in upper case.'),
}

/** @throws AppError `unprocessable` for half of a payment */
function paymentOf({ amount_minor, currency }: { [Name in keyof OwnersPayment]?: OwnersPayment[Name] | undefined }) {
  if (amount_minor === undefined && currency === undefined) return undefined
  if (amount_minor === undefined || currency === undefined) throw unprocessable('give amount_minor and currency together')
  return { amount_minor, currency }
}

export const moderate_member = operation({
  id: 'moderate_member',
  title: 'Moderate a member',
  summary:
    'Approves, rejects, blocks or unblocks a member. A blocked member is signed out at once; an approved one is informed by email.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/members/{member_id}/moderate',
  scope: 'editor',
  input: z.object({ site_id, member_id, action: z.enum(memberActions), ...payment }),
  example: { action: 'approve' },
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: Member,
  errors: [409],
  handler: async (ctx, { member_id, action, ...given }, site) => {
    await moderateMember(ctx, site, member_id, action, paymentOf(given))
    return shownMember(ctx, site, member_id)
  },
})

const shownMember = async ({ db }: Context, { id }: SiteRow, memberId: string) => memberView(await getMember(db, id, memberId))

export const moderate_site_member = operation({
  id: 'moderate_site_member',
  title: 'Moderate or delete a member',
  summary:
    'Approves, rejects, blocks, unblocks or deletes a member. A blocked or deleted member is signed out at once; approved and deleted ones are informed by email, in the name of the site. delete needs confirm: true, and answers the member as it was.',
  tag,
  tool: { destructive: true },
  scope: 'editor',
  input: z.object({
    site_id,
    member_id,
    action: z.enum([...memberActions, 'delete']),
    ...payment,
    confirm: z.boolean().optional().describe('Must be true for delete, which cannot be undone.'),
  }),
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: Member,
  errors: [400, 409],
  handler: async (ctx, { member_id, action, confirm, ...given }, site) => {
    const paid = paymentOf(given)
    if (action !== 'delete') {
      await moderateMember(ctx, site, member_id, action, paid)
      return shownMember(ctx, site, member_id)
    }
    const member = await shownMember(ctx, site, member_id)
    if (confirm !== true) {
      throw invalid(
        'the member would be deleted and informed by email; ask whether that is wanted, then repeat with confirm: true',
        'confirmation_required',
      )
    }
    await deleteMember(ctx, site, member_id)
    return member
  },
})

export const export_site_member = operation({
  id: 'export_site_member',
  title: 'Export what is kept about a member',
  summary:
    'Gets everything that is kept about a member, for members who ask for it: consents, payments, and emails of the last 30 days.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/members/{member_id}/export',
  scope: 'editor',
  input: z.object({ site_id, member_id }),
  load: siteOfCaller,
  output: ExportedMember,
  lists: [
    { member: 'payments', key: 'created_at' },
    { member: 'emails', key: 'created_at' },
  ],
  handler: async ({ db }, { site_id, member_id }) => {
    const member = await getMember(db, site_id, member_id)
    return {
      ...exportView(member),
      payments: Listing.of(readPayments(db, member), (rows) => rows.map(paymentView)),
      emails: Listing.of(readEmailsTo(db, member), (rows) => rows.map(emailView)),
    }
  },
})
