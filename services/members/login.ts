import { admissionOf } from '../../core/members.ts'
import type { Visits } from '../../infra/crypto/visits.ts'
import type { GateState } from '../../infra/gate/state.ts'
import { type CodeVisitor, confirmCode, type EnteredCode, tryCode } from '../access/codes.ts'
import { noteNetwork } from '../access/known-networks.ts'
import { countOpen, type GrantedVisit, grantVisit, isOver, type LoginOutcome } from '../access/login.ts'
import { returnTry } from '../access/login-rates.ts'
import { generationOf } from '../access/visits.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'
import { hasAgreed, recordConsent } from './consents.ts'
import { findProvider, isKnown, lockMember, type MemberRow } from './members.ts'
import { findProvedAddress, issueProof, type WithProofs } from './proofs.ts'
import { type MemberSite, type RegistrationAnswers, register } from './register.ts'
import { findSettings } from './settings.ts'

export type LoginServices = Services & WithProofs & { readonly visits: Visits }

/** Another page than the site; with the proof of the address that the forms of that page need, when it is new. */
export interface MemberPage {
  readonly kind: 'page'
  readonly state: GateState
  readonly proof?: string
}

export type MemberOutcome = LoginOutcome | MemberPage

/** Lets a member with the right code in, and registers a visitor who is not known when there is nothing to ask. */
export async function loginMember(
  services: LoginServices,
  site: MemberSite,
  visitor: CodeVisitor,
  entered: EnteredCode,
): Promise<MemberOutcome | { readonly kind: 'expired' }> {
  const now = services.clock()
  const code = await tryCode(services, site.lock, visitor, entered, now)
  if (code.kind === 'wrong' || code.kind === 'expired') return { kind: code.kind }
  if (code.kind !== 'right') return code
  const isConfirmed = await transact(services, async (tx) => {
    if (!(await confirmCode(tx, code.id, now))) return false
    await returnTry(tx, code.tried)
    return true
  })
  if (!isConfirmed) return { kind: 'expired' }
  const outcome = await enter(services, site, entered.email)
  if (outcome.kind !== 'page') return outcome
  return { ...outcome, proof: issueProof(services, placeOf(site), code.id, now) }
}

const placeOf = ({ site_id, host, lock }: MemberSite) => ({ site_id, host, epoch: lock.epoch })

/** The address that a visitor of the site has confirmed. @param cookies the values of the cookies that may prove it */
export const provedAddress = (services: Services & WithProofs, site: MemberSite, cookies: readonly string[]) =>
  findProvedAddress(services, placeOf(site), cookies)

/**
 * Lets a visitor with a confirmed address in, or says what comes first: registration, consent, the decision of the owner, or a payment.
 * @param answers of the form of the registration, once it was sent
 */
export async function enter(
  services: LoginServices,
  site: MemberSite,
  email: string,
  answers?: RegistrationAnswers,
): Promise<MemberOutcome> {
  if (isOver(site.lock, services.clock())) return { kind: 'ended' }
  if (!(await isKnown(services.db, site.site_id, email))) {
    const registration = await register(services, site, email, answers)
    if (registration.kind !== 'registered') return registration
  }
  return await transact(services, async (tx): Promise<MemberOutcome> => {
    const member = await lockMember(tx, site.site_id, { email })
    // was deleted in between
    if (!member) return { kind: 'changed' }
    return (await pageFor(services, tx, site, member)) ?? (await login(services, tx, site, member))
  })
}

/** What a member has to do, or to wait for, before entering; the row is locked. */
async function pageFor(
  services: Services,
  tx: Tx,
  { site_id, lock }: MemberSite,
  member: MemberRow,
): Promise<MemberPage | undefined> {
  const { email } = member
  const admission = admissionOf(member, lock.mode, await findProvider(tx, site_id, lock.mode), services.clock())
  if (admission === 'pay' || admission === 'pay_owner') return { kind: 'page', state: { kind: admission, email } }
  if (admission !== 'in') return { kind: 'page', state: { kind: admission } }
  const { consent_mode, consent_version } = await findSettings(tx, site_id)
  const isAsked = consent_mode !== 'none' && member.consent_version < consent_version
  return isAsked ? { kind: 'page', state: { kind: 'consent' } } : undefined
}

async function login(services: LoginServices, tx: Tx, site: MemberSite, member: MemberRow): Promise<LoginOutcome> {
  const { site_id } = site
  const now = services.clock()
  const opened = await countOpen(tx, site.lock, now)
  if (opened.kind !== 'opened') return opened
  await noteNetwork(tx, { site_id, subject: member.id, network: site.network }, now)
  await tx.updateTable('members').set({ last_login_at: now }).where('id', '=', member.id).execute()
  tx.afterCommit(() => services.log.info({ site_id, member_id: member.id }, 'member logged in'))
  return await grant(services, tx, site, member, opened.expires_at)
}

/** A visit of a member whose row is locked, so that one who is blocked at the same time loses it. */
async function grant(
  { visits, clock }: LoginServices,
  tx: Tx,
  { site_id, host, lock }: MemberSite,
  member: MemberRow,
  lockEnd: Date | null,
): Promise<GrantedVisit> {
  const who = {
    subject: member.id,
    generation: await generationOf(tx, site_id, member.id),
    consent: member.consent_version,
  }
  const until = lock.mode === 'paid' ? member.paid_until : null
  return grantVisit(visits, { site_id, host, epoch: lock.epoch, expires_at: lockEnd }, who, clock(), { until })
}

/** The visitor behind a form: a member with a visit, or an address with a proof. */
export interface Cookies {
  readonly visits: readonly string[]
  readonly proofs: readonly string[]
}

/**
 * Records the consent of a member, and lets the member in with it: with a visit that replaces the present one, or with a login.
 * @param given by the box; empty when it was not ticked
 * @returns undefined for a visitor who has neither a visit nor a proof
 */
export async function consent(
  services: LoginServices,
  site: MemberSite,
  cookies: Cookies,
  given: string,
): Promise<MemberOutcome | undefined> {
  const now = services.clock()
  if (isOver(site.lock, now)) return { kind: 'ended' }
  const place = placeOf(site)
  const visit = cookies.visits.map((text) => services.visits.read(place, text)).find((one) => one && one.until > now)
  const email = visit ? undefined : await provedAddress(services, site, cookies.proofs)
  if (!visit && email === undefined) return undefined
  return await transact(services, async (tx): Promise<MemberOutcome | undefined> => {
    const { site_id } = site
    const member = await lockMember(tx, site_id, visit ? { id: visit.subject } : { email: email ?? '' })
    const isOver = visit && visit.generation < (await generationOf(tx, site_id, visit.subject))
    if (!member || isOver) return undefined
    const admit = (admitted: MemberRow) =>
      visit ? grant(services, tx, site, admitted, site.lock.expires_at) : login(services, tx, site, admitted)
    const page = await pageFor(services, tx, site, member)
    if (page && page.state.kind !== 'consent') return page
    const { consent_mode } = await findSettings(tx, site_id)
    if (consent_mode === 'checkbox' && !(await hasAgreed(tx, site_id, given)))
      return { kind: 'page', state: { kind: 'consent', error: 'wrong' } }
    // the owner has stopped asking
    if (consent_mode === 'none') return await admit(member)
    const consenting = { ...member, consent_version: await recordConsent(tx, member, now) }
    tx.afterCommit(() => services.log.info({ site_id, member_id: member.id }, 'member consented'))
    return await admit(consenting)
  })
}
