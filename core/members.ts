import type { AccessMode } from './access.ts'
import type { PaymentProviderName } from './payments.ts'

/** What becomes of a member is a decision of the owner, or of a payment. */
export const memberStatuses = ['pending', 'active', 'rejected', 'blocked'] as const
export type MemberStatus = (typeof memberStatuses)[number]

/** Whether the login page names the documents to which members agree, or has a box that they tick. */
export const consentModes = ['none', 'notice', 'checkbox'] as const
export type ConsentMode = (typeof consentModes)[number]

/** Whether the forms of the login page stand in a frame. */
export const formStyles = ['card', 'plain'] as const
export type FormStyle = (typeof formStyles)[number]

/** Members of a site in any state: visitors make them. */
export const maxMembers = 10_000
export const maxMemberNameLength = 80
export const maxNameLabelLength = 80
export const maxSeats = 1_000_000

/** The ways of closing a site that let members in. */
export const memberModes = ['members', 'paid'] as const satisfies readonly AccessMode[]
export const hasMembers = (mode: AccessMode): mode is (typeof memberModes)[number] => mode === 'members' || mode === 'paid'

/** What the owner does with a member. */
export const memberActions = ['approve', 'reject', 'block', 'unblock'] as const
export type MemberAction = (typeof memberActions)[number]

interface Transition {
  readonly from: readonly MemberStatus[]
  readonly to: MemberStatus
}

/** The states that an action is for, and the one that it leads to. */
export const memberTransitions: Readonly<Record<MemberAction, Transition>> = {
  approve: { from: ['pending', 'rejected'], to: 'active' },
  reject: { from: ['pending'], to: 'rejected' },
  block: { from: ['active'], to: 'blocked' },
  unblock: { from: ['blocked'], to: 'active' },
}

/** What decides whether a member is let in. */
export interface Standing {
  readonly status: MemberStatus
  readonly paid_at: Date | null
  readonly paid_until: Date | null
}

/** Whether a payment counts at the instant. */
export const isPaidFor = ({ paid_at, paid_until }: Standing, now: Date) =>
  paid_at !== null && (paid_until === null || paid_until > now)

/** Whether a member takes a seat: so do those who are let in. */
export const takesSeat = (member: Standing, mode: AccessMode, now: Date) =>
  member.status === 'active' && (mode !== 'paid' || isPaidFor(member, now))

/** Whether members pay the owner in person, who approves them then. */
const paysOwner = (mode: AccessMode, provider: PaymentProviderName | null) =>
  mode === 'paid' && (provider === null || provider === 'manual')

/** The state of a registration that was just made. A payment approves it, whatever the moderation. */
export const statusOfNewMember = ({ moderation }: { readonly moderation: boolean }, mode: AccessMode): MemberStatus =>
  moderation || mode === 'paid' ? 'pending' : 'active'

/** Whether a registration waits for a decision of the owner. */
export const waitsForOwner = (
  { moderation }: { readonly moderation: boolean },
  mode: AccessMode,
  provider: PaymentProviderName | null,
): boolean => (mode === 'paid' ? paysOwner(mode, provider) : moderation)

/** What a member who has confirmed the address gets to see; `in`: the site. @param provider of payments; null without a price */
export function admissionOf(
  member: Standing,
  mode: AccessMode,
  provider: PaymentProviderName | null,
  now: Date,
): 'in' | 'pending' | 'rejected' | 'blocked' | 'pay' | 'pay_owner' {
  const { status } = member
  if (status === 'rejected' || status === 'blocked') return status
  if (takesSeat(member, mode, now)) return 'in'
  if (mode !== 'paid' || isPaidFor(member, now)) return 'pending'
  return paysOwner(mode, provider) ? 'pay_owner' : 'pay'
}

/** What the box says that a member ticks: to which documents, so that nobody agrees to other ones than were shown. */
export const consentValue = (documents: readonly { readonly id: string }[]) => documents.map(({ id }) => id).join(' ') || 'yes'

/** The name as it is kept: one line without control characters; empty for none. Undefined when it is too long. */
export function readMemberName(text: string): string | undefined {
  const name = text.replace(/[\s\p{Cc}]+/gu, ' ').trim()
  return name.length <= 4 * maxMemberNameLength && Array.from(name).length <= maxMemberNameLength && name.isWellFormed()
    ? name
    : undefined
}
