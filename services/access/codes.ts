import { randomInt, randomUUID } from 'node:crypto'
import { accessCodeEmail } from '../../core/access-emails.ts'
import { codeDigits, codePeriodMs, maxCodeTries } from '../../core/access-login.ts'
import type { PageLanguage } from '../../core/page-language.ts'
import { isUuid } from '../../core/uuid.ts'
import { sha256Hex } from '../../infra/crypto/sha256.ts'
import type { Db } from '../../infra/db/database.ts'
import { sendEmailToVisitor } from '../emails/emails.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'
import type { LoginLock } from './find-site-at.ts'
import { isOver, isSameSecret, type LoginOutcome, type Visitor, type Waiting } from './login.ts'
import { codeRates, failureRates, type Try, takeRates, takeTry } from './login-rates.ts'

// Whether an address is known must show neither in an answer nor in how long it takes. Asking for a code therefore runs the same statements for
// every address; what differs is handed back as work for after the answer.

/** Makes a code that a visitor types. */
export const makeCode = () => String(randomInt(10 ** codeDigits)).padStart(codeDigits, '0')

/** A visitor with what the login log tells of it. */
export interface CodeVisitor extends Visitor {
  readonly device: string
}

/** Who asks for a code, and in which language the email is. */
export type AskingVisitor = CodeVisitor & { readonly lang: PageLanguage }

/** Work for after the answer. */
export type Afterwards = () => Promise<void>

/** `challenge` names the code. */
export type CodeRequest =
  | { readonly kind: 'requested'; readonly email: string; readonly challenge: string; readonly afterwards: Afterwards }
  | { readonly kind: 'ended' }
  | Waiting

/** A site that is closed in a way that lets visitors in by a code. */
export interface CodeSite {
  readonly site_id: string
  readonly project_id: string
  readonly lock: LoginLock
}

/**
 * Makes a code for an address, which replaces an earlier one.
 * @param email a plain address in lower case
 * @param deliver runs after the answer, and sends the code or does not
 */
export async function issueCode(
  services: Services,
  { site_id, project_id, lock }: CodeSite,
  { host, network, lang }: AskingVisitor,
  email: string,
  deliver: (tx: Tx, send: () => Promise<void>, now: Date) => Promise<void>,
): Promise<CodeRequest> {
  const now = services.clock()
  if (isOver(lock, now)) return { kind: 'ended' }
  const taken = await takeRates(services, codeRates({ site_id, network }, sha256Hex(email)), now)
  if ('until' in taken) return { kind: 'wait', until: taken.until }
  const id = randomUUID()
  const code = makeCode()
  await transact(services, async (tx) => {
    await tx
      .deleteFrom('access_codes')
      .where('site_id', '=', site_id)
      .where('email', '=', email)
      // a confirmed code lets its visitor finish what has begun
      .where('confirmed_at', 'is', null)
      .execute()
    await tx
      .insertInto('access_codes')
      .values({ id, site_id, email, code_sha256: sha256Hex(id + code), created_at: now })
      .execute()
  })
  const { from: sender } = services.config.mail
  const afterwards = () =>
    transact(services, (tx) => {
      const letter = accessCodeEmail({ site_id, host, code, lang })
      return deliver(tx, () => sendEmailToVisitor(tx, { project_id, recipient: email }, letter, { sender, now }), now)
    })
  return { kind: 'requested', email, challenge: id, afterwards }
}

export interface EnteredCode {
  /** As the form sends it back. */
  readonly challenge: string
  /** A plain address in lower case. */
  readonly email: string
  readonly code: string
}

/** `expired`: the code is over, used, replaced by another one, or has been tried too often. */
export type CodeOutcome = (LoginOutcome | { readonly kind: 'expired' }) & { readonly afterwards?: Afterwards }

/** `isKnown`: the code was made for the address, and could be tried. */
type TriedCode =
  | { readonly kind: 'right'; readonly tried: Try }
  | { readonly kind: 'wrong' | 'expired'; readonly isKnown: boolean }
  | { readonly kind: 'ended' }
  | Waiting

/** Compares an entered code. Each try is counted on the row of the code before. A right one is still to be used, which may happen once. */
export async function tryCode(
  services: Services,
  lock: LoginLock,
  { network }: Visitor,
  { challenge, email, code }: EnteredCode,
  now: Date,
): Promise<TriedCode> {
  const { site_id } = lock
  if (isOver(lock, now)) return { kind: 'ended' }
  const tried = await takeTry(services, failureRates.code({ site_id, network }), now)
  if ('until' in tried) return { kind: 'wait', until: tried.until }
  const found = isUuid(challenge) ? await countTry(services.db, { site_id, id: challenge, email }, now) : undefined
  if (!found) return { kind: 'expired', isKnown: false }
  if (isSameSecret(sha256Hex(challenge + code), found.code_sha256)) return { kind: 'right', tried }
  return { kind: found.tries < maxCodeTries ? 'wrong' : 'expired', isKnown: true }
}

/** Counts a try of a code that may still be tried. */
function countTry(db: Db, { id, site_id, email }: { id: string; site_id: string; email: string }, now: Date) {
  return db
    .updateTable('access_codes')
    .set((eb) => ({ tries: eb('tries', '+', 1) }))
    .where('id', '=', id)
    .where('site_id', '=', site_id)
    .where('email', '=', email)
    .where('confirmed_at', 'is', null)
    .where('tries', '<', maxCodeTries)
    .where('created_at', '>', new Date(now.getTime() - codePeriodMs))
    .returning(['code_sha256', 'tries'])
    .executeTakeFirst()
}

/** Uses up a code that was right. False when somebody else has, or it was replaced. */
export async function useCode(tx: Tx, challenge: string): Promise<boolean> {
  const used = await tx.deleteFrom('access_codes').where('id', '=', challenge).returning('id').executeTakeFirst()
  return used !== undefined
}

/** Marks a code that was right, so that its visitor may finish a registration. False when somebody else has, or it was replaced. */
export async function confirmCode(tx: Tx, challenge: string, now: Date): Promise<boolean> {
  const confirmed = await tx
    .updateTable('access_codes')
    .set({ confirmed_at: now })
    .where('id', '=', challenge)
    .where('confirmed_at', 'is', null)
    .returning('id')
    .executeTakeFirst()
  return confirmed !== undefined
}
