import { codePeriodMs } from '../../core/access-login.ts'
import { EmailRefused, type Mailer } from '../../infra/mail/mailer.ts'
import { withHeartbeat } from '../../infra/temporal/heartbeat.ts'
import { type EmailRow, findEmail, setEmailOutcome } from '../../services/emails/emails.ts'
import type { Services } from '../../services/services.ts'
import type { EmailActivities } from '../contract/emails.ts'

export interface EmailActivityDeps extends Services {
  /** Undefined when no mail server is set: emails are kept then. */
  readonly mailer: Mailer | undefined
}

export function createEmailActivities({ db, mailer, log, clock }: EmailActivityDeps): EmailActivities {
  /** Whether it holds a code that nobody can use any more. */
  const isTooLate = ({ kind, created_at }: Pick<EmailRow, 'kind' | 'created_at'>) =>
    kind === 'access_code' && created_at.getTime() + codePeriodMs <= clock().getTime()

  return {
    sendEmail: ({ email_id }) =>
      withHeartbeat(async () => {
        const email = await findEmail(db, email_id)
        if (!email) return 'failed'
        const outcome = email.outcome ?? (await send(email))
        await setEmailOutcome(db, email_id, outcome, clock())
        return outcome
      }),

    async giveUpEmail({ email_id }) {
      if (await setEmailOutcome(db, email_id, 'failed', clock())) log.error({ email_id }, 'email given up')
    },
  }

  async function send(email: EmailRow) {
    if (!mailer) return 'kept'
    if (isTooLate(email)) {
      log.warn({ email_id: email.id }, 'email with a code not sent: the code is over')
      return 'failed'
    }
    try {
      await mailer.send({ ...email, isReply: email.submission_id !== null })
      log.info({ email_id: email.id }, 'email sent')
      return 'sent'
    } catch (error) {
      if (!(error instanceof EmailRefused)) throw error
      // the text of the answer may name the recipient
      log.warn({ email_id: email.id }, 'email refused by the mail server')
      return 'failed'
    }
  }
}
