import { type Mailer, MailRefused } from '../../infra/mail/mailer.ts'
import { findMail, setMailOutcome } from '../../services/emails/emails.ts'
import type { Services } from '../../services/services.ts'
import type { MailActivities } from '../contract/emails.ts'

export interface MailActivityDeps extends Services {
  /** Undefined: mails are kept. */
  readonly mailer: Mailer | undefined
}

export function createMailActivities({ db, mailer, log, clock }: MailActivityDeps): MailActivities {
  return {
    async sendMail({ mail_id }) {
      const mail = await findMail(db, mail_id)
      if (!mail) return 'failed'
      const outcome = mail.outcome ?? (await send(mail))
      await setMailOutcome(db, mail_id, outcome, clock())
      return outcome
    },

    async giveUpMail({ mail_id }) {
      if (await setMailOutcome(db, mail_id, 'failed', clock())) log.error({ mail_id }, 'mail given up')
    },
  }

  async function send(mail: NonNullable<Awaited<ReturnType<typeof findMail>>>) {
    if (!mailer) return 'kept'
    try {
      await mailer.send(mail)
      log.info({ mail_id: mail.id }, 'mail sent')
      return 'sent'
    } catch (error) {
      if (!(error instanceof MailRefused)) throw error
      // the text of the answer may name the recipient
      log.warn({ mail_id: mail.id }, 'mail refused by the mail server')
      return 'failed'
    }
  }
}
