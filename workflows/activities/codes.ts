import { EmailRefused } from '../../infra/mail/mailer.ts'
import { withHeartbeat } from '../../infra/temporal/heartbeat.ts'
import { type CodeLetter, decideCode, finishCode, isCodeOver } from '../../services/members/send-code.ts'
import type { CodeActivities } from '../contract/codes.ts'
import type { EmailActivityDeps } from './emails.ts'

/** The step of a login code. */
export function createCodeActivities(deps: EmailActivityDeps): CodeActivities {
  const { mailer, log } = deps
  return {
    sendCode: ({ code_id }) =>
      withHeartbeat(async () => {
        const letter = await decideCode(deps, code_id)
        if (!letter) return 'dropped'
        const outcome = await send(letter)
        await finishCode(deps, letter, outcome)
        return outcome
      }),
  }

  async function send(letter: CodeLetter) {
    if (!mailer) return 'kept'
    if (isCodeOver(deps, letter)) {
      log.warn({ code_id: letter.id }, 'login code not sent: it is over')
      return 'failed'
    }
    try {
      await mailer.send({ ...letter, reply_to: null, isReply: false })
      log.info({ code_id: letter.id }, 'login code sent')
      return 'sent'
    } catch (error) {
      if (!(error instanceof EmailRefused)) throw error
      // the text of the answer may name the recipient
      log.warn({ code_id: letter.id }, 'login code refused by the mail server')
      return 'failed'
    }
  }
}
