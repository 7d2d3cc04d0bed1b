import { randomBytes } from 'node:crypto'
import { type SqlBool, sql } from 'kysely'
import { jsonObjectFrom } from 'kysely/helpers/postgres'
import { ticketPeriodSeconds } from '../../core/tickets.ts'
import { stateOfVisit, type VisitState } from '../../core/visits.ts'
import { isSameToken, type PermanentTokens } from '../../infra/crypto/permanent-tokens.ts'
import { sha256Hex } from '../../infra/crypto/sha256.ts'
import type { Visit, Visits } from '../../infra/crypto/visits.ts'
import type { Db } from '../../infra/db/database.ts'
import { type RouteLock, routeLock } from '../feeds/locks.ts'
import type { Services } from '../services.ts'
import { transact } from '../transact.ts'
import { type GrantedVisit, grantVisit, isOver, type Visitor } from './login.ts'

// A ticket takes the visit of a visitor from a host of the site to the host of a permanent link. It can be redeemed once, within a minute, for the
// deploy that it was issued for. The new visit has the subject, the epoch, the generation, the consent and the end of the old one, so that whatever
// ends that one ends this one as well.

/** A visit that ends so soon counts as over, because the clock of the edge at the link may be ahead: it would send the visitor back at once. */
const soonMs = 30_000
/** Tickets of a subject from one network that wait to be redeemed. Further ones replace the oldest. */
const maxWaiting = 20
/** 32 bytes in base64url. */
const ticketPattern = /^[A-Za-z0-9_-]{43}$/

/** Why a visitor gets no ticket before something else is done. */
export interface NoTicket {
  readonly kind: Exclude<VisitState, 'pass'> | 'ended'
}

/** Issues a ticket to a visitor who has logged in. @param cookies the values that may be a visit */
export async function issueTicket(
  services: Services & { readonly visits: Visits },
  { site_id, host, network }: Visitor & { readonly site_id: string },
  cookies: readonly string[],
  deploy_id: string,
): Promise<{ readonly kind: 'issued'; readonly ticket: string } | NoTicket> {
  const now = services.clock()
  const lock = await findRouteLock(services.db, site_id)
  if (!lock) return { kind: 'closed' }
  const { epoch, expires_at } = lock
  if (isOver({ expires_at: expires_at === null ? null : new Date(expires_at) }, now)) return { kind: 'ended' }
  const visits = cookies.map((text) => services.visits.read({ site_id, host, epoch }, text)).filter((one) => one !== undefined)
  const stateOf = (visit: Visit) => stateOfVisit(visit, lock, now.getTime() + soonMs)
  const visit = visits.find((one) => stateOf(one) === 'pass')
  if (!visit) return { kind: visits.map(stateOf).find((state) => state !== 'closed' && state !== 'pass') ?? 'closed' }
  const ticket = randomBytes(32).toString('base64url')
  const { subject, generation, consent, until } = visit
  await transact(services, async (tx) => {
    const own = tx.selectFrom('access_tickets').where('site_id', '=', site_id)
    const newest = own.where('subject', '=', subject).where('network', '=', network).orderBy('created_at', 'desc')
    const replaced = newest.select('ticket_sha256').offset(maxWaiting - 1)
    await tx.deleteFrom('access_tickets').where('ticket_sha256', 'in', replaced).execute()
    const row = { site_id, deploy_id, epoch, subject, generation, consent, until, network }
    await tx
      .insertInto('access_tickets')
      .values({ ticket_sha256: sha256Hex(ticket), ...row })
      .execute()
  })
  return { kind: 'issued', ticket }
}

async function findRouteLock(db: Db, siteId: string): Promise<RouteLock | null> {
  const site = await db
    .selectFrom('sites')
    .select((eb) => jsonObjectFrom(routeLock(eb)).as('lock'))
    .where('sites.id', '=', siteId)
    .executeTakeFirst()
  return site?.lock ?? null
}

/** The host of a permanent link. */
export interface LinkPlace {
  readonly host: string
  /** The token in the name of the host, and the deploy that it names. */
  readonly token: string
  readonly deploy_id: string
}

/** The visit for a ticket; undefined unless it was issued for this link within the last minute, and is redeemed for the first time. */
export async function redeemTicket(
  services: Services & { readonly visits: Visits; readonly permanentTokens: PermanentTokens },
  { host, token, deploy_id }: LinkPlace,
  ticket: string,
): Promise<GrantedVisit | undefined> {
  if (!ticketPattern.test(ticket)) return undefined
  // one statement decides, by the clock of the database: no two requests redeem a ticket
  const row = await services.db
    .deleteFrom('access_tickets')
    .using('sites')
    .whereRef('sites.id', '=', 'access_tickets.site_id')
    .where('access_tickets.ticket_sha256', '=', sha256Hex(ticket))
    .where('access_tickets.deploy_id', '=', deploy_id)
    .where(sql<SqlBool>`access_tickets.created_at > now() - make_interval(secs => ${ticketPeriodSeconds})`)
    .returning(['access_tickets.site_id', 'epoch', 'subject', 'generation', 'consent', 'until', 'permanent_links_generation'])
    .executeTakeFirst()
  if (!row || !isSameToken(token, services.permanentTokens(deploy_id, row.permanent_links_generation))) return undefined
  const { site_id, epoch, subject, generation, consent, until } = row
  services.log.info({ site_id, deploy_id }, 'visitor let in to a permanent link')
  return grantVisit(
    services.visits,
    { site_id, host, epoch, expires_at: until },
    { subject, generation, consent },
    services.clock(),
  )
}
