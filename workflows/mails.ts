import { maxMailsAboutOneThing } from '../core/limits.ts'
import type { Letter } from '../core/mails.ts'
import type { Tx } from '../infra/db/database.ts'
import { countSuppressedMail, insertMailToOwner } from '../services/emails/emails.ts'
import { takeAllowance } from '../services/projects/allowances.ts'
import { insertWorkflowStart } from '../services/workflow-messages.ts'
import { mailStart } from './contract/mails.ts'

const hourMs = 3_600_000

/**
 * Writes a mail to the owner of a project and the start of its sending, in the transaction of its cause; wake the relay after the commit.
 * Of many mails about the same thing only the first few are written: no caller makes the platform flood an owner.
 */
export async function queueMailToOwner(
  tx: Tx,
  projectId: string,
  letter: Letter,
  options: { readonly sender: string; readonly now: Date },
): Promise<void> {
  const { kind, about } = letter
  const allowance = { project_id: projectId, kind: `mail:${kind}:${about}`, limit: maxMailsAboutOneThing, periodMs: hourMs }
  if (await takeAllowance(tx, allowance, options.now)) return await countSuppressedMail(tx, projectId, letter)
  const { id } = await insertMailToOwner(tx, projectId, letter, options)
  await insertWorkflowStart(tx, mailStart({ id, project_id: projectId, about: letter.subject }))
}
