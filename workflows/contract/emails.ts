import type { WorkflowStart } from './messages.ts'

export interface EmailInput {
  readonly email_id: string
}

/** Activities of the control queue, implemented in `activities/emails.ts`. */
export interface EmailActivities {
  /** Sends an email that was not sent yet, and returns the outcome. A repetition sends it twice only when the answer of the mail server was lost. */
  sendEmail(input: EmailInput): Promise<'sent' | 'kept' | 'failed'>
  /** Marks the email as failed, after all tries. */
  giveUpEmail(input: EmailInput): Promise<void>
}

/** Holds neither the recipient nor the text, because Temporal does not encrypt what it stores. */
export const emailStart = (email: {
  readonly id: string
  readonly project_id: string
  readonly about: string
}): WorkflowStart<'sendEmail', EmailInput> => ({
  workflow_id: `email:${email.id}`,
  type: 'sendEmail',
  input: { email_id: email.id },
  summary: `email: ${email.about.slice(0, 100)}`,
  attributes: { ProjectId: email.project_id, Trigger: 'api' },
})
