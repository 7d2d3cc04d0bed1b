import { hasMembers, maxMembers, readMemberName, statusOfNewMember, waitsForOwner } from '../../core/members.ts'
import type { PageLanguage } from '../../core/page-language.ts'
import type { GateState } from '../../infra/gate/state.ts'
import type { LoginLock } from '../access/find-site-at.ts'
import { findLock } from '../access/locks.ts'
import type { Services } from '../services.ts'
import { lockLiveSite } from '../sites/sites.ts'
import { type Tx, transact } from '../transact.ts'
import { hasAgreed, recordConsent } from './consents.ts'
import { sendEmailToMember } from './emails.ts'
import { findProvider, isKnown } from './members.ts'
import { hasSeat } from './seats.ts'
import { findSettings, type MemberSettings } from './settings.ts'

/** A site that is closed to all but its members, and how a visitor came to it. */
export interface MemberSite {
  readonly site_id: string
  readonly project_id: string
  readonly lock: LoginLock
  readonly host: string
  readonly lang: PageLanguage
  /** The network of the client's address. */
  readonly network: string
}

/** What the form of the registration asks for. */
export interface RegistrationAnswers {
  readonly name: string
  /** Of the box; empty when it was not ticked. */
  readonly consent: string
}

/** `changed`: the site is closed in another way by now. */
export type Registration =
  | { readonly kind: 'registered' }
  | { readonly kind: 'page'; readonly state: GateState }
  | { readonly kind: 'changed' }

/**
 * Registers an address that its visitor has confirmed, unless there is something to ask, or no room. A known one stays as it is. Seats are counted
 * under the lock of the site, which makes registrations and approvals wait for each other.
 * @param answers undefined before the form was shown
 * @throws AppError when the site was moved to the trash
 */
export function register(
  services: Services,
  site: MemberSite,
  email: string,
  answers: RegistrationAnswers | undefined,
): Promise<Registration> {
  const { site_id, project_id, lock, host, lang } = site
  return transact(services, async (tx): Promise<Registration> => {
    await lockLiveSite(tx, project_id, site_id)
    const current = await findLock(tx, site_id)
    if (!current || !hasMembers(current.mode) || current.epoch !== lock.epoch) return { kind: 'changed' }
    if (await isKnown(tx, site_id, email)) return { kind: 'registered' }
    const now = services.clock()
    const settings = await findSettings(tx, site_id)
    const status = statusOfNewMember(settings, current.mode)
    // who has to pay takes a seat with the payment
    const isFull = status === 'active' && !(await hasSeat(tx, site_id, current.mode, settings.max_seats, now))
    if (isFull || !(await hasRoom(tx, site_id))) return { kind: 'page', state: { kind: 'seats' } }
    const hasConsent = settings.consent_mode !== 'checkbox' || (await hasAgreed(tx, site_id, answers?.consent ?? ''))
    const name = hasConsent ? readName(settings, answers) : undefined
    if (name === undefined) return { kind: 'page', state: registerPage(email, answers) }
    const member = { site_id, project_id, email, host, lang, status, name: name || null, registered_at: now }
    const { id } = await tx.insertInto('members').values(member).returning('id').executeTakeFirstOrThrow()
    if (settings.consent_mode !== 'none') await recordConsent(tx, { id, site_id }, now)
    const isWaiting = waitsForOwner(settings, current.mode, await findProvider(tx, site_id, current.mode))
    await sendEmailToMember(services, tx, member, isWaiting ? 'pending' : 'registered')
    tx.afterCommit(() => services.log.info({ site_id, member_id: id, status }, 'member registered'))
    return { kind: 'registered' }
  })
}

async function hasRoom(tx: Tx, siteId: string): Promise<boolean> {
  const { count } = await tx
    .selectFrom('members')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('site_id', '=', siteId)
    .executeTakeFirstOrThrow()
  return count < maxMembers
}

/** The name, which is empty when none is asked for. Undefined while it is missing. */
function readName({ ask_name }: MemberSettings, answers: RegistrationAnswers | undefined): string | undefined {
  if (!ask_name) return ''
  return (answers && readMemberName(answers.name)) || undefined
}

const registerPage = (email: string, answers: RegistrationAnswers | undefined): GateState => ({
  kind: 'register',
  email,
  name: answers?.name ?? '',
  ...(answers && { error: 'wrong' }),
})
