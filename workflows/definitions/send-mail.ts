import { ActivityFailure, isCancellation, proxyActivities, setCurrentDetails, upsertMemo } from '@temporalio/workflow'
import type { MailActivities, MailInput } from '../contract/emails.ts'

const { sendMail: send } = proxyActivities<MailActivities>({
  summary: 'hand the mail to the mail server',
  startToCloseTimeout: '2m',
  // a mail server may be away over a weekend
  scheduleToCloseTimeout: '3d',
  retry: { initialInterval: '5s', backoffCoefficient: 2, maximumInterval: '30m' },
})
const { giveUpMail } = proxyActivities<MailActivities>({
  summary: 'note that the mail was not sent',
  startToCloseTimeout: '30s',
  retry: { initialInterval: '1s', maximumInterval: '1m' },
})

const told = {
  sent: '✅ sent',
  kept: '➖ kept: PLINTH_SMTP_URL is not set',
  failed: '❌ the mail server does not take it',
  given_up: '❌ not sent: the mail server was away for three days',
}

/** Hands one mail to the mail server; it stays readable in the database whatever becomes of it. */
export async function sendMail(input: MailInput): Promise<keyof typeof told> {
  setCurrentDetails('⏳ waiting for the mail server')
  const outcome = await sendOrGiveUp(input)
  setCurrentDetails(told[outcome])
  upsertMemo({ outcome: told[outcome] })
  return outcome
}

async function sendOrGiveUp(input: MailInput): Promise<keyof typeof told> {
  try {
    return await send(input)
  } catch (error) {
    if (!(error instanceof ActivityFailure) || isCancellation(error)) throw error
    await giveUpMail(input)
    return 'given_up'
  }
}
