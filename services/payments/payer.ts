import { generationOf } from '../access/visits.ts'
import { type Cookies, type LoginServices, provedAddress } from '../members/login.ts'
import type { MemberSite } from '../members/register.ts'

/** The address of a visitor who wants to pay: a confirmed one, or that of a member who is inside and pays before the period is over. */
export async function findPayer(services: LoginServices, site: MemberSite, cookies: Cookies): Promise<string | undefined> {
  const proved = await provedAddress(services, site, cookies.proofs)
  if (proved !== undefined) return proved
  const { site_id, host, lock } = site
  const now = services.clock()
  for (const text of cookies.visits) {
    const visit = services.visits.read({ site_id, host, epoch: lock.epoch }, text)
    if (!visit || visit.until <= now) continue
    const member = await services.db
      .selectFrom('members')
      .select('email')
      .where('site_id', '=', site_id)
      .where('id', '=', visit.subject)
      .executeTakeFirst()
    const isOver = visit.generation < (await generationOf(services.db, site_id, visit.subject))
    return isOver ? undefined : member?.email
  }
  return undefined
}
