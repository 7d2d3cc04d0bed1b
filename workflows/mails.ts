import type { Letter } from '../core/mails.ts'
import type { Tx } from '../infra/db/database.ts'
import { insertMailToOwner } from '../infra/db/mails.ts'
import { insertWorkflowStart } from '../infra/db/workflow-starts.ts'
import { mailStart } from './contract/mails.ts'

/** Writes a mail to the owner of a project and the start of its sending, in the transaction of its cause; wake the relay after the commit. */
export async function queueMailToOwner(
  tx: Tx,
  projectId: string,
  letter: Letter,
  options: { readonly sender: string; readonly now: Date },
): Promise<void> {
  const { id } = await insertMailToOwner(tx, projectId, letter, options)
  await insertWorkflowStart(tx, mailStart({ id, project_id: projectId, about: letter.subject }))
}
