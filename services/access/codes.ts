import { createHash, randomInt, randomUUID } from 'node:crypto'
import { accessCodeEmail } from '../../core/access-emails.ts'
import { codeDigits, codePeriodMs, type LoginResult, maxCodeTries } from '../../core/access-login.ts'
import type { PageLanguage } from '../../core/page-language.ts'
import { isUuid } from '../../core/uuid.ts'
import type { Visits } from '../../infra/crypto/visits.ts'
import type { Db } from '../../infra/db/database.ts'
import { sendEmailToVisitor } from '../emails/emails.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'
import type { LoginLock } from './find-site-at.ts'
import { countOpen, grantVisit, isOver, isSameSecret, type LoginOutcome, type Visitor, type Waiting } from './login.ts'
import { recordLogin } from './login-log.ts'
import { codeRates, failureRates, returnTry, takeRates, takeTry } from './login-rates.ts'

// Whether an address is listed must show neither in an answer nor in how long it takes. Asking for a code therefore runs the same statements for
// every address; what differs is handed back as work for after the answer.

/** A visitor with what the login log tells of it. */
export interface CodeVisitor extends Visitor {
  readonly device: string
}

/** Work for after the answer. */
type Afterwards = () => Promise<void>

/** `challenge` names the code. */
export type CodeRequest =
  | { readonly kind: 'requested'; readonly email: string; readonly challenge: string; readonly afterwards: Afterwards }
  | { readonly kind: 'ended' }
  | Waiting

/** @param email a plain address in lower case */
export async function requestCode(
  services: Services,
  { site_id, project_id, lock }: { readonly site_id: string; readonly project_id: string; readonly lock: LoginLock },
  visitor: CodeVisitor & { readonly lang: PageLanguage },
  email: string,
): Promise<CodeRequest> {
  const now = services.clock()
  if (isOver(lock, now)) return { kind: 'ended' }
  const taken = await takeRates(services, codeRates({ site_id, network: visitor.network }, sha256(email)), now)
  if ('until' in taken) return { kind: 'wait', until: taken.until }
  const id = randomUUID()
  const code = String(randomInt(10 ** codeDigits)).padStart(codeDigits, '0')
  await transact(services, async (tx) => {
    await tx.deleteFrom('access_codes').where('site_id', '=', site_id).where('email', '=', email).execute()
    await tx
      .insertInto('access_codes')
      .values({ id, site_id, email, code_sha256: sha256(id + code), created_at: now })
      .execute()
  })
  const { host, network, device, lang } = visitor
  const afterwards = () =>
    transact(services, async (tx) => {
      const listed = await findListed(tx, site_id, email)
      if (!listed) {
        await recordLogin(tx, { site_id, access_email_id: null, email, device, network, result: 'unlisted', at: now })
        return
      }
      const sender = services.config.mail.from
      await sendEmailToVisitor(tx, { project_id, recipient: email }, accessCodeEmail({ site_id, host, code, lang }), {
        sender,
        now,
      })
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

/** Lets a visitor with the code of a listed address in. Each try is counted on the row of the code before it is compared. */
export async function loginWithCode(
  services: Services & { readonly visits: Visits },
  lock: LoginLock,
  visitor: CodeVisitor,
  { challenge, email, code }: EnteredCode,
): Promise<CodeOutcome> {
  const now = services.clock()
  const { site_id } = lock
  if (isOver(lock, now)) return { kind: 'ended' }
  const tried = await takeTry(services, failureRates.code({ site_id, network: visitor.network }), now)
  if ('until' in tried) return { kind: 'wait', until: tried.until }
  const found = isUuid(challenge) ? await countTry(services.db, { site_id, id: challenge, email }, now) : undefined
  if (!found) return { kind: 'expired' }
  const record = (result: LoginResult, id: string) => ({ site_id, access_email_id: id, email, result, at: now, ...visitor })
  if (!isSameSecret(sha256(challenge + code), found.code_sha256)) {
    return {
      kind: found.tries < maxCodeTries ? 'wrong' : 'expired',
      async afterwards() {
        const listed = await findListed(services.db, site_id, email)
        if (listed) await recordLogin(services.db, logged(record('wrong_code', listed.id)))
      },
    }
  }
  return await transact(services, async (tx): Promise<CodeOutcome> => {
    const used = await tx.deleteFrom('access_codes').where('id', '=', challenge).returning('id').executeTakeFirst()
    if (!used) return { kind: 'expired' }
    const listed = await lockListed(tx, site_id, email)
    if (!listed) return { kind: 'wrong' }
    const opened = await countOpen(tx, lock, now)
    await returnTry(tx, tried)
    if (opened.kind !== 'opened') {
      await recordLogin(tx, logged(record('limit_reached', listed.id)))
      return opened
    }
    await tx.updateTable('access_emails').set({ last_login_at: now }).where('id', '=', listed.id).execute()
    await recordLogin(tx, logged(record('success', listed.id)))
    tx.afterCommit(() => services.log.info({ site_id, access_email_id: listed.id }, 'visitor logged in with a code'))
    const who = { subject: listed.id, generation: listed.generation, consent: 0 }
    return grantVisit(services.visits, { site_id, host: visitor.host, ...opened }, who, now)
  })
}

/** Without the members that the log has no column for. */
const logged = <Given extends { readonly host: string }>({ host: _host, ...login }: Given) => login

/** Counts a try of a code that may still be tried. */
function countTry(db: Db, { id, site_id, email }: { id: string; site_id: string; email: string }, now: Date) {
  return db
    .updateTable('access_codes')
    .set((eb) => ({ tries: eb('tries', '+', 1) }))
    .where('id', '=', id)
    .where('site_id', '=', site_id)
    .where('email', '=', email)
    .where('tries', '<', maxCodeTries)
    .where('created_at', '>', new Date(now.getTime() - codePeriodMs))
    .returning(['code_sha256', 'tries'])
    .executeTakeFirst()
}

const findListed = (db: Db, siteId: string, email: string) => listedRow(db, siteId, email).executeTakeFirst()

const listedRow = (db: Db, siteId: string, email: string) =>
  db.selectFrom('access_emails').select('id').where('site_id', '=', siteId).where('email', '=', email)

/** A listed address, which cannot be removed until the transaction ends, and the generation of its visits. */
async function lockListed(tx: Tx, siteId: string, email: string) {
  const row = await listedRow(tx, siteId, email).forUpdate().executeTakeFirst()
  if (!row) return undefined
  const raised = await tx
    .selectFrom('access_generations')
    .select('generation')
    .where('site_id', '=', siteId)
    .where('subject', '=', row.id)
    .executeTakeFirst()
  return { id: row.id, generation: raised?.generation ?? 0 }
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
