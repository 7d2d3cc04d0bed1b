import { proxyActivities, setCurrentDetails, upsertMemo } from '@temporalio/workflow'
import { type SkipReason, skipReasons } from '../../core/autoreply.ts'
import type { AutoreplyActivities, AutoreplyInput } from '../contract/autoreply.ts'
import { type EmailResult, handOverEmail } from './hand-over-email.ts'

const { decideAutoreply } = proxyActivities<AutoreplyActivities>({
  summary: 'decide whether the visitor gets a reply, and write it',
  startToCloseTimeout: '30s',
  retry: { initialInterval: '1s', maximumInterval: '1m' },
})

/** Replies to the visitor who has posted a form, unless there is a reason not to. */
export async function sendAutoreply(input: AutoreplyInput): Promise<EmailResult | `skipped: ${SkipReason}`> {
  setCurrentDetails('⏳ writing the reply')
  const decision = await decideAutoreply(input)
  if (decision.state === 'written') return await handOverEmail({ email_id: decision.email_id })
  const outcome = `➖ not sent: ${skipReasons[decision.reason]}`
  setCurrentDetails(outcome)
  upsertMemo({ outcome })
  return `skipped: ${decision.reason}`
}
