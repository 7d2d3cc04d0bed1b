import type { LoginResult } from '../../core/access-login.ts'
import type { Visits } from '../../infra/crypto/visits.ts'
import type { Db } from '../../infra/db/database.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'
import { type CodeOutcome, type CodeVisitor, type EnteredCode, tryCode, useCode } from './codes.ts'
import type { LoginLock } from './find-site-at.ts'
import { noteNetwork } from './known-networks.ts'
import { countOpen, grantVisit } from './login.ts'
import { recordLogin } from './login-log.ts'
import { returnTry } from './login-rates.ts'
import { generationOf } from './visits.ts'

/** Lets a visitor with the code of a listed address in. */
export async function loginWithListedCode(
  services: Services & { readonly visits: Visits },
  lock: LoginLock,
  visitor: CodeVisitor,
  entered: EnteredCode,
): Promise<CodeOutcome> {
  const now = services.clock()
  const { site_id } = lock
  const { email } = entered
  const { host, network, device } = visitor
  const code = await tryCode(services, lock, visitor, entered, now)
  const record = (result: LoginResult, id: string) => ({
    site_id,
    access_email_id: id,
    email,
    result,
    at: now,
    network,
    device,
  })
  if (code.kind === 'ended' || code.kind === 'wait') return code
  if (code.kind !== 'right') {
    if (!code.isKnown) return { kind: code.kind }
    return {
      kind: code.kind,
      async afterwards() {
        const listed = await findListed(services.db, site_id, email)
        if (listed) await recordLogin(services.db, record('wrong_code', listed.id))
      },
    }
  }
  return await transact(services, async (tx): Promise<CodeOutcome> => {
    if (!(await useCode(tx, code.id))) return { kind: 'expired' }
    const listed = await lockListed(tx, site_id, email)
    if (!listed) return { kind: 'wrong' }
    const opened = await countOpen(tx, lock, now)
    await returnTry(tx, code.tried)
    if (opened.kind !== 'opened') {
      await recordLogin(tx, record('limit_reached', listed.id))
      return opened
    }
    await tx.updateTable('access_emails').set({ last_login_at: now }).where('id', '=', listed.id).execute()
    await recordLogin(tx, record('success', listed.id))
    await noteNetwork(tx, { site_id, subject: listed.id, network }, now)
    tx.afterCommit(() => services.log.info({ site_id, access_email_id: listed.id }, 'visitor logged in with a code'))
    const who = { subject: listed.id, generation: listed.generation, consent: 0 }
    return grantVisit(services.visits, { site_id, host, ...opened }, who, now)
  })
}

export const findListed = (db: Db, siteId: string, email: string) => listedRow(db, siteId, email).executeTakeFirst()

const listedRow = (db: Db, siteId: string, email: string) =>
  db.selectFrom('access_emails').select('id').where('site_id', '=', siteId).where('email', '=', email)

/** A listed address, which cannot be removed until the transaction ends, and the generation of its visits. */
async function lockListed(tx: Tx, siteId: string, email: string) {
  const row = await listedRow(tx, siteId, email).forUpdate().executeTakeFirst()
  return row && { id: row.id, generation: await generationOf(tx, siteId, row.id) }
}
