import { randomUUID } from 'node:crypto'
import { codePeriodMs, maxCodeTries } from '../../core/access-login.ts'
import { botTexts } from '../../core/messenger-texts.ts'
import { type MessengerName, maxCodesPerLogin, startPayload, subscriberPeriodMs } from '../../core/messengers.ts'
import { isUuid } from '../../core/uuid.ts'
import { sha256Hex } from '../../infra/crypto/sha256.ts'
import type { Visits } from '../../infra/crypto/visits.ts'
import type { Db } from '../../infra/db/database.ts'
import { type BotUpdate, isAway } from '../../infra/messengers/provider.ts'
import { makeCode } from '../access/codes.ts'
import type { LoginLock } from '../access/find-site-at.ts'
import { countOpen, grantVisit, isOver, isSameSecret, type LoginOutcome, type Visitor, type Waiting } from '../access/login.ts'
import { returnTry, takeCodeTry } from '../access/login-rates.ts'
import { generationOf } from '../access/visits.ts'
import { takeRates } from '../rates.ts'
import { transact } from '../transact.ts'
import { askMembership } from './memberships.ts'
import { codeRates, linkRates, membershipRates } from './rates.ts'
import type { MessengerServices } from './services.ts'
import { saveSubscriber } from './subscribers.ts'

// The code goes to the person who opens the link, and lets in the visitor who types it: a link that is passed on gives nothing to the visitor
// who passed it on, unless the code comes back. The page learns nothing of what happens in the messenger.

/** A login that was begun. `challenge` names it; `url` opens the bot. */
export interface BegunLogin {
  readonly kind: 'begun'
  readonly provider: MessengerName
  readonly challenge: string
  readonly url: string
}

/** @returns `stranger` for a messenger that none of the site's channels is of */
export async function beginMessengerLogin(
  services: MessengerServices,
  lock: LoginLock,
  { host, network }: Visitor,
  provider: MessengerName,
): Promise<BegunLogin | Waiting | { readonly kind: 'ended' | 'away' | 'stranger' }> {
  const now = services.clock()
  const { site_id } = lock
  if (isOver(lock, now)) return { kind: 'ended' }
  if (!(await hasChannelOf(services.db, site_id, provider))) return { kind: 'stranger' }
  const until = await transact(services, (tx) => takeRates(tx, linkRates(network), now))
  if (until) return { kind: 'wait', until }
  const id = randomUUID()
  const url = await linkOfLogin(services, lock, { provider, challenge: id })
  if (url === undefined) return { kind: 'away' }
  const nonce_sha256 = sha256Hex(services.messengers.secrets.loginNonce(id))
  await services.db
    .insertInto('messenger_logins')
    .values({ id, site_id, provider, host, nonce_sha256, created_at: now })
    .execute()
  return { kind: 'begun', provider, challenge: id, url }
}

async function hasChannelOf(db: Db, siteId: string, provider: MessengerName): Promise<boolean> {
  const found = await db
    .selectFrom('access_channels')
    .innerJoin('messenger_channels', 'messenger_channels.id', 'access_channels.channel_id')
    .select('messenger_channels.id')
    .where('access_channels.site_id', '=', siteId)
    .where('messenger_channels.provider', '=', provider)
    .limit(1)
    .executeTakeFirst()
  return found !== undefined
}

/** The login with its link; undefined when it is over, or the messenger does not answer. */
export async function findBegunLogin(
  services: MessengerServices,
  lock: LoginLock,
  challenge: string,
): Promise<Omit<BegunLogin, 'kind'> | undefined> {
  const login = await services.db
    .selectFrom('messenger_logins')
    .select('provider')
    .where('id', '=', challenge)
    .where('site_id', '=', lock.site_id)
    .executeTakeFirst()
  if (!login) return undefined
  const { provider } = login
  const url = await linkOfLogin(services, lock, { provider, challenge })
  return url === undefined ? undefined : { provider, challenge, url }
}

/** Undefined while the messenger does not answer, or when it is not set up. */
async function linkOfLogin(
  { messengers }: Pick<MessengerServices, 'messengers'>,
  { site_id }: Pick<LoginLock, 'site_id'>,
  { provider, challenge }: Pick<BegunLogin, 'provider' | 'challenge'>,
): Promise<string | undefined> {
  const payload = startPayload({ purpose: 'login', nonce: messengers.secrets.loginNonce(challenge) })
  try {
    return await messengers.open(provider, site_id)?.deepLink(payload)
  } catch (error) {
    if (isAway(error)) return undefined
    throw error
  }
}

/** Somebody opens the bot with the link of a login. Returns what the bot answers: a code, which replaces an earlier one. */
export async function sendLoginCode(
  services: Pick<MessengerServices, 'db' | 'relay' | 'clock'>,
  name: MessengerName,
  { user_id, lang }: BotUpdate,
  nonce: string,
): Promise<string> {
  const texts = botTexts[lang]
  const now = services.clock()
  const login = await services.db
    .selectFrom('messenger_logins')
    .select(['id', 'host'])
    .where('provider', '=', name)
    .where('nonce_sha256', '=', sha256Hex(nonce))
    .where('created_at', '>', new Date(now.getTime() - codePeriodMs))
    .executeTakeFirst()
  if (!login) return texts.loginOver
  const rates = codeRates({ provider: name, user_id })
  if (await transact(services, (tx) => takeRates(tx, rates, now))) return texts.tooManyCodes
  const code = makeCode()
  const sent = await services.db
    .updateTable('messenger_logins')
    .set((eb) => ({ user_id, code_sha256: sha256Hex(login.id + code), sends: eb('sends', '+', 1) }))
    .where('id', '=', login.id)
    .where('sends', '<', maxCodesPerLogin)
    .where('tries', '<', maxCodeTries)
    .where((eb) => eb.or([eb('user_id', 'is', null), eb('user_id', '=', user_id)]))
    .returning('id')
    .executeTakeFirst()
  return sent ? texts.code(login.host, code) : texts.loginOver
}

/** `expired`: the code is over, used, or has been tried too often. `stranger`: no subscriber. `away`: the messenger does not answer. */
export type MessengerOutcome =
  | LoginOutcome
  | { readonly kind: 'expired' }
  | { readonly kind: 'stranger' }
  | { readonly kind: 'away' }

/**
 * Lets the person in to whom the bot has sent the code, when the messenger says that they are a subscriber. Each try is counted on the row of
 * the login before it is compared.
 */
export async function loginWithMessenger(
  services: MessengerServices & { readonly visits: Visits },
  lock: LoginLock,
  { host, network }: Visitor,
  { challenge, code }: { readonly challenge: string; readonly code: string },
): Promise<MessengerOutcome> {
  const { site_id } = lock
  const now = services.clock()
  if (isOver(lock, now)) return { kind: 'ended' }
  const tried = await takeCodeTry(services, { site_id, network }, now)
  if ('until' in tried) return { kind: 'wait', until: tried.until }
  const login = isUuid(challenge) ? await countTry(services.db, { id: challenge, site_id, host }, now) : undefined
  if (!login) return { kind: 'expired' }
  const { provider, user_id, code_sha256, tries } = login
  // nobody has opened the link yet
  if (user_id === null || code_sha256 === null) return { kind: tries < maxCodeTries ? 'wrong' : 'expired' }
  if (!isSameSecret(sha256Hex(challenge + code), code_sha256)) return { kind: tries < maxCodeTries ? 'wrong' : 'expired' }
  await returnTry(services.db, tried)
  const person = { provider, user_id }
  const askableAt = await transact(services, (tx) => takeRates(tx, membershipRates(site_id, person), now))
  if (askableAt) return { kind: 'wait', until: askableAt }
  const membership = await askMembership(services, site_id, person)
  // the code is as good as before
  if (membership === 'away') return { kind: 'away' }
  return await transact(services, async (tx): Promise<MessengerOutcome> => {
    const used = await tx.deleteFrom('messenger_logins').where('id', '=', challenge).returning('id').executeTakeFirst()
    if (!used) return { kind: 'expired' }
    if (membership === 'stranger') return { kind: 'stranger' }
    const at = services.clock()
    const until = new Date(at.getTime() + subscriberPeriodMs)
    const subject = await saveSubscriber(tx, { site_id, ...person }, { at, until })
    const generation = await generationOf(tx, site_id, subject)
    const opened = await countOpen(tx, lock, at)
    if (opened.kind !== 'opened') return opened
    tx.afterCommit(() => services.log.info({ site_id, subscriber_id: subject }, 'visitor logged in with a messenger'))
    const who = { subject, generation, consent: 0 }
    return grantVisit(services.visits, { site_id, host, ...opened }, who, at, { until, isRenewable: true })
  })
}

function countTry(db: Db, { id, site_id, host }: { id: string; site_id: string; host: string }, now: Date) {
  return db
    .updateTable('messenger_logins')
    .set((eb) => ({ tries: eb('tries', '+', 1) }))
    .where('id', '=', id)
    .where('site_id', '=', site_id)
    .where('host', '=', host)
    .where('tries', '<', maxCodeTries)
    .where('created_at', '>', new Date(now.getTime() - codePeriodMs))
    .returning(['provider', 'user_id', 'code_sha256', 'tries'])
    .executeTakeFirst()
}
