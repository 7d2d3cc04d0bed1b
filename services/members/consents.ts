import { consentValue } from '../../core/members.ts'
import type { Tx } from '../transact.ts'
import type { MemberRow } from './members.ts'
import { findSettings } from './settings.ts'

/** Whether the box that a member has ticked is about the documents as they are now. @param given its value; empty when it was not ticked */
export async function hasAgreed(tx: Tx, siteId: string, given: string): Promise<boolean> {
  const documents = await tx.selectFrom('site_documents').select('id').where('site_id', '=', siteId).orderBy('position').execute()
  return given === consentValue(documents)
}

/** Records that a member consents to the documents as they are now; the row of the member is locked. @returns the version of the consent */
export async function recordConsent(tx: Tx, { id, site_id }: Pick<MemberRow, 'id' | 'site_id'>, at: Date): Promise<number> {
  const { consent_version } = await findSettings(tx, site_id)
  await tx.updateTable('members').set({ consent_version }).where('id', '=', id).execute()
  await tx
    .insertInto('member_consents')
    .columns(['member_id', 'document_id', 'at'])
    .expression((eb) =>
      eb
        .selectFrom('site_documents')
        .select((of) => [of.val(id).as('member_id'), 'site_documents.id', of.val(at).as('at')])
        .where('site_id', '=', site_id),
    )
    .onConflict((conflict) => conflict.columns(['member_id', 'document_id']).doUpdateSet({ at }))
    .execute()
  return consent_version
}
