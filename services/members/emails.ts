import { replySender } from '../../core/autoreply.ts'
import { type MemberNews, memberEmail } from '../../core/member-emails.ts'
import { sendEmailToVisitor } from '../emails/emails.ts'
import type { Services } from '../services.ts'
import type { Tx } from '../transact.ts'
import type { MemberRow } from './members.ts'

/** Informs a member, in the name of the site, in the transaction that causes it. */
export async function sendEmailToMember(
  { config, clock }: Services,
  tx: Tx,
  { site_id, project_id, email, host, lang }: Pick<MemberRow, 'site_id' | 'project_id' | 'email' | 'host' | 'lang'>,
  news: MemberNews,
): Promise<void> {
  const { name } = await tx
    .selectFrom('sites')
    .leftJoin('access_brands', 'access_brands.site_id', 'sites.id')
    .select((eb) => eb.fn.coalesce('access_brands.title', 'sites.name').as('name'))
    .where('sites.id', '=', site_id)
    .executeTakeFirstOrThrow()
  const sender = replySender(name, config.mail.from)
  await sendEmailToVisitor(tx, { project_id, recipient: email }, memberEmail(news, { site_id, host, lang }), {
    sender,
    now: clock(),
  })
}
