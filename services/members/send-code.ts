import { accessCodeEmail } from '../../core/access-emails.ts'
import { codePeriodMs } from '../../core/access-login.ts'
import type { Email } from '../../core/emails.ts'
import { mailboxOf } from '../../core/mailboxes.ts'
import { hasMembers } from '../../core/members.ts'
import { openIfPossible } from '../../infra/crypto/seal.ts'
import { sha256Hex } from '../../infra/crypto/sha256.ts'
import type { Db } from '../../infra/db/database.ts'
import { codePlace } from '../access/codes.ts'
import { isKnownNetwork } from '../access/known-networks.ts'
import { findListed } from '../access/listed-login.ts'
import { findLock } from '../access/locks.ts'
import { recordLogin } from '../access/login-log.ts'
import { type EmailRow, keepHandedOver } from '../emails/emails.ts'
import { accessRate, type Rate, takeRates } from '../rates.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'

// Whether a code that was asked for is emailed. Only emails that are sent count. A mailbox gets from all sites together 5 codes an hour and 20 a day,
// which anybody can use up who knows an address of it. So somebody whom a site knows has reserves there:
//
// - one code in ten minutes, 36 a day. A code is valid for ten minutes, on every page that has asked for the address: a stranger who asks for six
//   hours in a row uses the reserve up, and until then the person has a valid code in the mailbox. The reserves of the sites of one project are 12 an
//   hour and 72 a day together, those of all sites 60 and 240, so that an owner who lists an address on many sites can neither flood it nor take a
//   code from it at a site of others.
// - 5 an hour and 20 a day for requests from networks from which the person has entered this site before: no stranger can use them up.
//
// At one site at most 20 + 36 + 20 codes of a mailbox are sent in a day. Each has ten tries, so that somebody who asks and guesses all day long
// enters with a probability of 760 in a million, while the person gets 76 emails.

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

interface Budgets {
  /** Somebody whom the site knows, from a network from which they have entered before. */
  readonly familiar: readonly Rate[]
  /** Every mailbox, over the whole platform. */
  readonly common: readonly Rate[]
  /** Addresses of which a site does not know anything, which only sites with members write to. */
  readonly registrations: readonly Rate[]
  /** Somebody whom the site knows. */
  readonly known: readonly Rate[]
}

function budgetsOf({ site_id, project_id, email }: Pick<DueCode, 'site_id' | 'project_id' | 'email'>): Budgets {
  const mailbox = sha256Hex(mailboxOf(email))
  const rate = (what: string, limit: number, periodMs: number) => accessRate(`codes:${what}:${mailbox}`, limit, periodMs)
  return {
    familiar: [
      rate(`pause:familiar:${site_id}`, 1, minuteMs),
      rate(`familiar:hour:${site_id}`, 5, hourMs),
      rate(`familiar:day:${site_id}`, 20, dayMs),
    ],
    common: [rate(`pause:${site_id}`, 1, minuteMs), rate('hour', 5, hourMs), rate('day', 20, dayMs)],
    registrations: [accessRate(`codes:site:${site_id}`, 300, hourMs)],
    known: [
      rate(`pause:${site_id}`, 1, minuteMs),
      rate(`known:pause:${site_id}`, 1, codePeriodMs),
      rate(`known:day:${site_id}`, 36, dayMs),
      rate(`project:hour:${project_id}`, 12, hourMs),
      rate(`project:day:${project_id}`, 72, dayMs),
      rate('known:hour', 60, hourMs),
      rate('known:day', 240, dayMs),
    ],
  }
}

/** A code that is emailed. */
export interface CodeLetter extends Email, Pick<EmailRow, 'id' | 'project_id' | 'sender' | 'recipient' | 'created_at'> {}

/**
 * Decides once whether a code is emailed; a repetition finds the decision. From then on the code is accepted.
 * @returns undefined when it is not, or not any more
 */
export function decideCode(services: Services, codeId: string): Promise<CodeLetter | undefined> {
  return transact(services, async (tx) => {
    const code = await lockDueCode(tx, codeId)
    if (!code) return undefined
    const { id, site_id, project_id, email: recipient, host, lang, created_at } = code
    const text = openIfPossible(services.keyring, code.sealed_code, codePlace(id))
    const isSent =
      text !== undefined &&
      (code.sent_at !== null || (!isCodeOver(services, code) && (await mayBeSent(tx, code, services.clock()))))
    if (!isSent) {
      await tx.updateTable('access_codes').set({ sealed_code: null }).where('id', '=', id).execute()
      return undefined
    }
    if (code.sent_at === null) {
      await tx.updateTable('access_codes').set({ sent_at: services.clock() }).where('id', '=', id).execute()
    }
    const letter = accessCodeEmail({ site_id, host, code: text, lang })
    return { ...letter, id, project_id, sender: services.config.mail.from, recipient, created_at }
  })
}

/** Keeps the outcome of the email, and erases the code. Without a mail server the text stays, for the operator. */
export function finishCode(services: Services, letter: CodeLetter, outcome: 'sent' | 'kept' | 'failed'): Promise<void> {
  return transact(services, async (tx) => {
    await tx.updateTable('access_codes').set({ sealed_code: null }).where('id', '=', letter.id).execute()
    const content = outcome === 'kept' ? letter : { ...letter, text: '', html: '' }
    await keepHandedOver(tx, content, outcome, services.clock())
  })
}

/** Whether the code has expired. */
export const isCodeOver = ({ clock }: Pick<Services, 'clock'>, { created_at }: Pick<CodeLetter, 'created_at'>) =>
  created_at.getTime() + codePeriodMs <= clock().getTime()

type DueCode = NonNullable<Awaited<ReturnType<typeof lockDueCode>>>

/** A code that is neither emailed nor dropped yet. */
async function lockDueCode(tx: Tx, id: string) {
  const row = await tx
    .selectFrom('access_codes')
    .innerJoin('sites', 'sites.id', 'access_codes.site_id')
    .select(['access_codes.id', 'site_id', 'project_id', 'email', 'host', 'lang', 'device', 'network'])
    .select(['sealed_code', 'sent_at', 'access_codes.created_at'])
    .where('access_codes.id', '=', id)
    .forUpdate('access_codes')
    .executeTakeFirst()
  if (!row || row.sealed_code === null) return undefined
  const { host, lang, device, network, sealed_code } = row
  return { ...row, sealed_code, host: host ?? '', lang: lang ?? 'en', device: device ?? '', network: network ?? '' }
}

async function mayBeSent(tx: Tx, code: DueCode, now: Date): Promise<boolean> {
  const { site_id, email, device, network } = code
  const lock = await findLock(tx, site_id)
  const isForAll = lock !== undefined && hasMembers(lock.mode)
  // was opened, or closed in another way, since the code was asked for
  if (!lock || !(isForAll || lock.mode === 'email')) return false
  const known = isForAll ? await findAdmitted(tx, site_id, email) : await findListed(tx, site_id, email)
  if (!known && !isForAll) {
    await recordLogin(tx, { site_id, access_email_id: null, email, device, network, result: 'unlisted', at: now })
    return false
  }
  const take = async (rates: readonly Rate[]) => (await takeRates(tx, rates, now)) === undefined
  const { familiar, common, registrations, known: reserve } = budgetsOf(code)
  if (!known) return await take([...common, ...registrations])
  const isFamiliar = await isKnownNetwork(tx, { site_id, subject: known.id, network })
  return (isFamiliar && (await take(familiar))) || (await take(common)) || (await take(reserve))
}

/** A member who may enter, or may be let in. */
const findAdmitted = (tx: Tx, siteId: string, email: string) =>
  tx
    .selectFrom('members')
    .select('id')
    .where('site_id', '=', siteId)
    .where('email', '=', email)
    .where('status', 'in', ['active', 'pending'])
    .executeTakeFirst()

/** Lists codes that were asked for before the instant and that nothing has decided about, or that are not sent; by id. */
export function listWaitingCodes(db: Db, before: Date, page: { limit: number; afterId: string | undefined }) {
  return db
    .selectFrom('access_codes')
    .innerJoin('sites', 'sites.id', 'access_codes.site_id')
    .select(['access_codes.id as code_id', 'site_id', 'project_id'])
    .where('sealed_code', 'is not', null)
    .where('access_codes.created_at', '<', before)
    .$if(page.afterId !== undefined, (query) => query.where('access_codes.id', '>', page.afterId ?? ''))
    .orderBy('access_codes.id')
    .limit(page.limit)
    .execute()
}
