import type { WorkflowStart } from './messages.ts'

export interface MailInput {
  readonly mail_id: string
}

/** Activities of the control queue, implemented in `activities/emails.ts`. */
export interface MailActivities {
  /** Sends a mail that was not sent yet; answers what has become of it. Repeating it may send it twice only when the answer of the mail server was lost. */
  sendMail(input: MailInput): Promise<'sent' | 'kept' | 'failed'>
  /** After all tries. */
  giveUpMail(input: MailInput): Promise<void>
}

/** Neither the recipient nor the text: what Temporal stores is not encrypted. */
export const mailStart = (mail: {
  readonly id: string
  readonly project_id: string
  readonly about: string
}): WorkflowStart<'sendMail', MailInput> => ({
  workflow_id: `mail:${mail.id}`,
  type: 'sendMail',
  input: { mail_id: mail.id },
  summary: `mail: ${mail.about.slice(0, 100)}`,
  attributes: { ProjectId: mail.project_id, Trigger: 'api' },
})
