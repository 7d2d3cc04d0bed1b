import type { EmailInput } from '../contract/emails.ts'
import { type EmailResult, handOverEmail } from './hand-over-email.ts'

/** Sends one email to the owner of a project, or the code of a login to a visitor. It stays in the database, whatever the outcome. */
export function sendEmail(input: EmailInput): Promise<EmailResult> {
  return handOverEmail(input)
}
