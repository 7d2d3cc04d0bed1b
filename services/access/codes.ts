import { randomInt, randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { codeDigits, codePeriodMs, maxCodeTries } from '../../core/access-login.ts'
import type { PageLanguage } from '../../core/page-language.ts'
import { isUuid } from '../../core/uuid.ts'
import { seal } from '../../infra/crypto/seal.ts'
import { sha256Hex } from '../../infra/crypto/sha256.ts'
import type { Db } from '../../infra/db/database.ts'
import { codeStart } from '../../workflows/contract/codes.ts'
import { takeRates } from '../rates.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'
import { startWorkflow } from '../workflow-messages.ts'
import type { LoginLock } from './find-site-at.ts'
import { isOver, isSameSecret, type LoginOutcome, type Visitor, type Waiting } from './login.ts'
import { codeRequestRates, type Try, takeCodeTry } from './login-rates.ts'

// Whether an address is known must show neither in an answer nor in how long it takes. Asking for a code therefore writes the same rows for every
// address; whether the code is emailed is decided by the workflow that the request starts (`members/send-code.ts`).
//
// A stranger can ask for codes of somebody's address. That ends no earlier code, and uses up none of the five tries of a page that has asked itself:
// a code is accepted on every page that has asked for the address, and has five tries on the page that caused it and five on all others.

/** Makes a code that a visitor types. */
export const makeCode = () => String(randomInt(10 ** codeDigits)).padStart(codeDigits, '0')

/** Where the code of a request is sealed until it is emailed or not. */
export const codePlace = (id: string) => ({ table: 'access_codes', id, column: 'sealed_code' })

/** A visitor with what the login log tells of it. */
export interface CodeVisitor extends Visitor {
  readonly device: string
}

/** Who asks for a code, and in which language the email is. */
export type AskingVisitor = CodeVisitor & { readonly lang: PageLanguage }

/** Work for after the answer. */
export type Afterwards = () => Promise<void>

/** `challenge` names the request. */
export type CodeRequest =
  | { readonly kind: 'requested'; readonly email: string; readonly challenge: string }
  | { readonly kind: 'ended' }
  | Waiting

/** A site that is closed in a way that lets visitors in by a code. */
export interface CodeSite {
  readonly site_id: string
  readonly project_id: string
  readonly lock: LoginLock
}

/** Asks for a code to an address, whoever has it; the answer says nothing of whether it is emailed. @param email a plain address in lower case */
export async function requestCode(
  services: Services,
  { site_id, project_id, lock }: CodeSite,
  visitor: AskingVisitor,
  email: string,
): Promise<CodeRequest> {
  const now = services.clock()
  if (isOver(lock, now)) return { kind: 'ended' }
  const { host, network, lang, device } = visitor
  const id = randomUUID()
  const code = makeCode()
  const sealed_code = seal(services.keyring, code, codePlace(id))
  return await transact(services, async (tx): Promise<CodeRequest> => {
    const until = await takeRates(tx, codeRequestRates(network), now)
    if (until) return { kind: 'wait', until }
    const asked = { site_id, email, host, network, lang, device, created_at: now, sent_at: null }
    await tx
      .insertInto('access_codes')
      .values({ id, ...asked, code_sha256: hashOf(id, code), sealed_code })
      .execute()
    await startWorkflow(tx, codeStart({ code_id: id, site_id, project_id }))
    return { kind: 'requested', email, challenge: id }
  })
}

const hashOf = (id: string, code: string) => sha256Hex(id + code)

export interface EnteredCode {
  /** As the form sends it back. */
  readonly challenge: string
  /** A plain address in lower case. */
  readonly email: string
  readonly code: string
}

/** `expired`: the code is over, used, or has been tried too often. */
export type CodeOutcome = (LoginOutcome | { readonly kind: 'expired' }) & { readonly afterwards?: Afterwards }

/** `id`: of the request that the code was emailed for. `isKnown`: the page has asked for the address, and could try. */
type TriedCode =
  | { readonly kind: 'right'; readonly id: string; readonly tried: Try }
  | { readonly kind: 'wrong' | 'expired'; readonly isKnown: boolean }
  | { readonly kind: 'ended' }
  | Waiting

/**
 * Compares an entered code with those that were emailed to the address. Each try is counted on their rows before. A right one is still to be used,
 * which may happen once.
 */
export async function tryCode(
  services: Services,
  lock: LoginLock,
  { network }: Visitor,
  { challenge, email, code }: EnteredCode,
  now: Date,
): Promise<TriedCode> {
  const { site_id } = lock
  if (isOver(lock, now)) return { kind: 'ended' }
  const tried = await takeCodeTry(services, { site_id, network }, now)
  if ('until' in tried) return { kind: 'wait', until: tried.until }
  const rows = isUuid(challenge) ? await countTry(services.db, { site_id, challenge, email }, now) : []
  const asked = rows.find(({ is_own }) => is_own)
  if (!asked) return { kind: 'expired', isKnown: false }
  const right = rows.find(({ id, code_sha256, is_sent }) => is_sent && isSameSecret(hashOf(id, code), code_sha256))
  if (right) return { kind: 'right', id: right.id, tried }
  return { kind: asked.tries < maxCodeTries ? 'wrong' : 'expired', isKnown: true }
}

interface TriedRow {
  readonly id: string
  readonly code_sha256: string
  readonly tries: number
  /** Whether it is that of the page's own request. */
  readonly is_own: boolean
  readonly is_sent: boolean
}

/** Counts a try of a page that may still try, on its own code and on the others of the address. */
async function countTry(
  db: Db,
  { site_id, challenge, email }: { readonly site_id: string; readonly challenge: string; readonly email: string },
  now: Date,
): Promise<readonly TriedRow[]> {
  const isLive = sql`site_id = ${site_id} and email = ${email} and confirmed_at is null
    and created_at > ${new Date(now.getTime() - codePeriodMs)}`
  const { rows } = await sql<TriedRow>`
    with own as (
      update access_codes set tries = tries + 1 where id = ${challenge} and ${isLive} and tries < ${maxCodeTries}
      returning id, code_sha256, tries, sent_at),
    others as (
      update access_codes set other_tries = other_tries + 1
      where id <> ${challenge} and ${isLive} and sent_at is not null and other_tries < ${maxCodeTries} and exists (select from own)
      returning id, code_sha256, other_tries, sent_at)
    select id, code_sha256, tries, true as is_own, sent_at is not null as is_sent from own
    union all
    select id, code_sha256, other_tries, false, true from others`.execute(db)
  return rows
}

/** Uses up a code that was right. False when another request has. */
export async function useCode(tx: Tx, id: string): Promise<boolean> {
  const used = await tx.deleteFrom('access_codes').where('id', '=', id).returning('id').executeTakeFirst()
  return used !== undefined
}

/** Marks a code that was right, so that its visitor may finish a registration. False when another request has. */
export async function confirmCode(tx: Tx, id: string, now: Date): Promise<boolean> {
  const confirmed = await tx
    .updateTable('access_codes')
    .set({ confirmed_at: now })
    .where('id', '=', id)
    .where('confirmed_at', 'is', null)
    .returning('id')
    .executeTakeFirst()
  return confirmed !== undefined
}
