import { createHash, timingSafeEqual } from 'node:crypto'
import { visitPeriodMs } from '../../core/visits.ts'
import { anybody, type Visit, type Visits } from '../../infra/crypto/visits.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'
import type { LoginLock } from './find-site-at.ts'
import { noteNetwork } from './known-networks.ts'
import { returnTry, takePasswordTry } from './login-rates.ts'
import { openPassword } from './passwords.ts'

/** A visitor at the login page of a site. */
export interface Visitor {
  readonly host: string
  /** The network of the client's address. */
  readonly network: string
}

/** A visit that was granted. */
export interface GrantedVisit {
  readonly kind: 'granted'
  /** The value of the cookie. */
  readonly cookie: string
  readonly maxAgeSeconds: number
}

/** A rate is used up: the next try may be made at the instant. */
export interface Waiting {
  readonly kind: 'wait'
  readonly until: Date
}

/** `full`: all opens are used up. `ended`: the lock lets nobody in any more. `changed`: it is another one by now, or none. */
export interface Refused {
  readonly kind: 'wrong' | 'full' | 'ended' | 'changed'
}

export type LoginOutcome = GrantedVisit | Refused | Waiting

/** Lets a visitor with the password in. The visit is a new one, whatever the visitor had before. */
export async function loginWithPassword(
  services: Services & { readonly visits: Visits },
  lock: LoginLock,
  visitor: Visitor,
  password: string,
): Promise<LoginOutcome> {
  const now = services.clock()
  if (isOver(lock, now)) return { kind: 'ended' }
  const { site_id } = lock
  const { network } = visitor
  const tried = await takePasswordTry(services, { site_id, network }, now)
  if ('until' in tried) return { kind: 'wait', until: tried.until }
  const own = openPassword(services, lock)
  if (own === undefined || !isSameSecret(password.normalize(), own.normalize())) return { kind: 'wrong' }
  return await transact(services, async (tx) => {
    // another password would have another epoch
    const opened = await countOpen(tx, lock, now)
    await returnTry(tx, tried)
    if (opened.kind !== 'opened') return opened
    await noteNetwork(tx, { site_id, subject: anybody, network }, now)
    tx.afterCommit(() => services.log.info({ site_id }, 'visitor logged in with the password'))
    return grantVisit(
      services.visits,
      { site_id, host: visitor.host, ...opened },
      { subject: anybody, generation: 0, consent: 0 },
      now,
    )
  })
}

export const isOver = ({ expires_at }: Pick<LoginLock, 'expires_at'>, now: Date) => expires_at !== null && expires_at <= now

/** Compares hashes, whose length says nothing, in constant time. */
export const isSameSecret = (given: string, own: string) => timingSafeEqual(sha256(given), sha256(own))

const sha256 = (text: string) => createHash('sha256').update(text).digest()

interface Opened {
  readonly kind: 'opened'
  readonly epoch: string
  readonly expires_at: Date | null
}

/** Counts a login, unless the lock lets nobody in. One statement decides, so that no two logins take the same open. */
export async function countOpen(
  tx: Tx,
  { site_id, mode, epoch }: Pick<LoginLock, 'site_id' | 'mode' | 'epoch'>,
  now: Date,
): Promise<Opened | Refused> {
  const opened = await tx
    .updateTable('access_locks')
    .set((eb) => ({ opens_count: eb('opens_count', '+', 1) }))
    .where('site_id', '=', site_id)
    .where('mode', '=', mode)
    .where('epoch', '=', epoch)
    .where((eb) => eb.or([eb('expires_at', 'is', null), eb('expires_at', '>', now)]))
    .where((eb) => eb.or([eb('max_opens', 'is', null), eb('opens_count', '<', eb.ref('max_opens'))]))
    .returning(['epoch', 'expires_at'])
    .executeTakeFirst()
  if (opened) return { kind: 'opened', ...opened }
  const found = await tx
    .selectFrom('access_locks')
    .select(['mode', 'epoch', 'expires_at'])
    .where('site_id', '=', site_id)
    .executeTakeFirst()
  if (found?.mode !== mode || found.epoch !== epoch) return { kind: 'changed' }
  return { kind: isOver(found, now) ? 'ended' : 'full' }
}

interface Place extends Pick<Opened, 'epoch' | 'expires_at'> {
  readonly site_id: string
  readonly host: string
}

/** How long a visit lasts, when it may be shorter than usual. */
export interface Lasting {
  readonly until: Date | null
  /** Whether the cookie outlives the visit, so that it can be renewed. */
  readonly isRenewable?: boolean
}

/** A visit of the usual length, which ends earlier when the lock ends, or when `lasting` says so. */
export function grantVisit(
  visits: Visits,
  { expires_at, ...place }: Place,
  who: Omit<Visit, 'until'>,
  now: Date,
  lasting?: Lasting,
): GrantedVisit {
  const longest = earliest(new Date(now.getTime() + visitPeriodMs), expires_at)
  const until = earliest(longest, lasting?.until ?? null)
  const cookie = visits.issue({ site_id: place.site_id, host: place.host, epoch: place.epoch }, { ...who, until })
  const keptUntil = lasting?.isRenewable ? longest : until
  return { kind: 'granted', cookie, maxAgeSeconds: Math.max(1, Math.floor((keptUntil.getTime() - now.getTime()) / 1000)) }
}

const earliest = (one: Date, other: Date | null) => (other !== null && other < one ? other : one)
