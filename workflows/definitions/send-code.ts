import { ActivityFailure, isCancellation, proxyActivities, setCurrentDetails, upsertMemo } from '@temporalio/workflow'
import { codePeriodMs } from '../../core/access-login.ts'
import type { CodeActivities, CodeInput, CodeResult } from '../contract/codes.ts'

const { sendCode: send } = proxyActivities<CodeActivities>({
  summary: 'decide whether the code is emailed, and send it',
  startToCloseTimeout: '2m',
  // soon tells that the worker has died
  heartbeatTimeout: '20s',
  // the last try finds that the code is over, and erases it
  scheduleToCloseTimeout: codePeriodMs + 10 * 60_000,
  // a visitor waits for it
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '30s' },
})

const details: Readonly<Record<CodeResult, string>> = {
  sent: '✅ sent',
  kept: '➖ kept: PLINTH_SMTP_URL is not set',
  dropped: '➖ not sent: the address has no access, or has been sent enough codes',
  failed: '❌ not sent: refused by the mail server, or the code was over before it was taken',
}

/** Emails the code that a visitor of a closed site has asked for, unless there is a reason not to. */
export async function sendCode(input: CodeInput): Promise<CodeResult> {
  setCurrentDetails('⏳ waiting for the mail server')
  const outcome = await sendInTime(input)
  setCurrentDetails(details[outcome])
  upsertMemo({ outcome: details[outcome] })
  return outcome
}

async function sendInTime(input: CodeInput): Promise<CodeResult> {
  try {
    return await send(input)
  } catch (error) {
    if (!(error instanceof ActivityFailure) || isCancellation(error)) throw error
    return 'failed'
  }
}
