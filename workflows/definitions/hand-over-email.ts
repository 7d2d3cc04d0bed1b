import { ActivityFailure, isCancellation, proxyActivities, setCurrentDetails, upsertMemo } from '@temporalio/workflow'
import type { EmailActivities, EmailInput } from '../contract/emails.ts'

const { sendEmail: send } = proxyActivities<EmailActivities>({
  summary: 'hand the email to the mail server',
  startToCloseTimeout: '2m',
  // soon tells that the worker has died
  heartbeatTimeout: '20s',
  // a mail server may be away over a weekend
  scheduleToCloseTimeout: '3d',
  retry: { initialInterval: '5s', backoffCoefficient: 2, maximumInterval: '30m' },
})
const { giveUpEmail } = proxyActivities<EmailActivities>({
  summary: 'note that the email was not sent',
  startToCloseTimeout: '30s',
  retry: { initialInterval: '1s', maximumInterval: '1m' },
})

const details = {
  sent: '✅ sent',
  kept: '➖ kept: PLINTH_SMTP_URL is not set',
  failed: '❌ refused by the mail server',
  given_up: '❌ not sent: the mail server was away for three days',
}
export type EmailResult = keyof typeof details

/** Hands one email to the mail server, with retries for three days. */
export async function handOverEmail(input: EmailInput): Promise<EmailResult> {
  setCurrentDetails('⏳ waiting for the mail server')
  const outcome = await sendOrGiveUp(input)
  setCurrentDetails(details[outcome])
  upsertMemo({ outcome: details[outcome] })
  return outcome
}

async function sendOrGiveUp(input: EmailInput): Promise<EmailResult> {
  try {
    return await send(input)
  } catch (error) {
    if (!(error instanceof ActivityFailure) || isCancellation(error)) throw error
    await giveUpEmail(input)
    return 'given_up'
  }
}
