import { z } from 'zod'
import { maxShownConsents } from '../../core/limits.ts'
import { consentModes, formStyles, memberStatuses } from '../../core/members.ts'
import { pageLanguages } from '../../core/page-language.ts'
import { paymentProviderNames } from '../../core/payments.ts'
import type { EmailRow } from '../../services/emails/emails.ts'
import type { MemberPayment, Membership, MemberWithConsents } from '../../services/members/list.ts'
import { SiteAccess } from './access.ts'
import { writtenBy } from './authors.ts'
import { isoTime, isoTimeOrNull, time } from './fields.ts'

export const MemberSettings = z
  .object({
    moderation: z.boolean().describe('Whether the owner approves every registration.'),
    ask_name: z.boolean().describe('Whether a registration asks for a name.'),
    name_label: z.string().nullable().describe('What the login page calls the name; null for the usual word.'),
    consent_mode: z
      .enum(consentModes)
      .describe('notice tells members that they agree to the documents; checkbox makes them tick a box; none does neither.'),
    form_style: z.enum(formStyles).describe('Whether the forms of the login page stand in a frame.'),
    max_seats: z.int().nullable().describe('How many members are let in at most; null without a limit.'),
  })
  .meta({ id: 'MemberSettings' })

/** The access to a site together with the settings of its members. */
export const MembersAccess = SiteAccess.extend({ settings: MemberSettings }).meta({ id: 'MembersAccess' })

export const Member = z
  .object({
    id: z.uuid(),
    email: writtenBy('visitors', z.string()),
    name: writtenBy('visitors', z.string().nullable()),
    status: z.enum(memberStatuses).describe('Only active members are let in; at a paid site, those who have paid.'),
    consents: z
      .array(z.object({ document_id: z.uuid(), at: time }))
      .max(maxShownConsents)
      .describe('The documents to which the member has consented, also those that were replaced since.'),
    registered_at: time,
    last_login_at: time.nullable().describe('Null before the first login.'),
    payment: z
      .object({
        amount: z.int().describe('In the smallest unit of the currency.'),
        currency: z.string(),
        paid_at: time,
        provider: z.enum(paymentProviderNames),
        paid_until: time.nullable().describe('Null for ever.'),
      })
      .nullable()
      .describe('The payment that counts; null before the first one and after a refund.'),
  })
  .meta({ id: 'Member' })

export const SiteMembers = z
  .object({
    items: z.array(Member).describe('Newest first.'),
    total: z.int().describe('How many members match.'),
    limit: z.int(),
    offset: z.int(),
    counters: z
      .object({ pending: z.int(), active: z.int(), rejected: z.int(), blocked: z.int() })
      .describe('How many members of each status the site has.'),
    seats: z.object({
      taken: z.int().describe('How many members are let in.'),
      max: z.int().nullable().describe('Null without a limit.'),
    }),
    settings: MemberSettings,
    documents: SiteAccess.shape.documents,
  })
  .meta({ id: 'SiteMembers' })

export const ExportedMember = Member.extend({
  host: z.string().describe('The host at which the member has registered.'),
  language: z.enum(pageLanguages).describe('The language of the emails to the member.'),
  payments: z.array(
    z.object({
      provider: z.enum(paymentProviderNames),
      amount: z.int(),
      currency: z.string(),
      status: z.string(),
      created_at: time,
      paid_at: time.nullable(),
      paid_until: time.nullable(),
      refunded_at: time.nullable(),
    }),
  ),
  emails: z.array(z.object({ subject: z.string(), text: z.string(), created_at: time, sent_at: time.nullable() })),
}).meta({ id: 'ExportedMember' })

export const settingsView = ({
  consent_version: _internal,
  ...settings
}: Membership['settings']): z.input<typeof MemberSettings> => settings

export const memberView = ({ id, email, name, status, consents, ...row }: MemberWithConsents): z.input<typeof Member> => ({
  id,
  email,
  name,
  status,
  consents: [...consents],
  registered_at: isoTime(row.registered_at),
  last_login_at: isoTimeOrNull(row.last_login_at),
  payment:
    row.paid_at === null || row.paid_minor === null || row.paid_currency === null || row.paid_provider === null
      ? null
      : {
          amount: row.paid_minor,
          currency: row.paid_currency,
          paid_at: isoTime(row.paid_at),
          provider: row.paid_provider,
          paid_until: isoTimeOrNull(row.paid_until),
        },
})

/** A member without their records. */
export const exportView = (member: MemberWithConsents) => ({ ...memberView(member), host: member.host, language: member.lang })

type Exported = z.input<typeof ExportedMember>

export const paymentView = (row: MemberPayment): Exported['payments'][number] => ({
  provider: row.provider,
  amount: row.amount_minor,
  currency: row.currency,
  status: row.status,
  created_at: isoTime(row.created_at),
  paid_at: isoTimeOrNull(row.paid_at),
  paid_until: isoTimeOrNull(row.paid_until),
  refunded_at: isoTimeOrNull(row.refunded_at),
})

type EmailToMember = Pick<EmailRow, 'subject' | 'text' | 'created_at' | 'sent_at'>

export const emailView = ({ subject, text, created_at, sent_at }: EmailToMember): Exported['emails'][number] => ({
  subject,
  text,
  created_at: isoTime(created_at),
  sent_at: isoTimeOrNull(sent_at),
})
