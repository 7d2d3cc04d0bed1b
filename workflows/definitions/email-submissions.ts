import { proxyActivities, setCurrentDetails, upsertMemo } from '@temporalio/workflow'
import type { DigestInput, DigestOutcome, FormActivities } from '../contract/forms.ts'
import { actWhenDue } from './act-when-due.ts'

const { sendDigest } = proxyActivities<FormActivities>({
  summary: 'write an email about the submissions that were gathered',
  startToCloseTimeout: '1m',
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '1m' },
})

/** Waits while form submissions to a site are gathered, then has one email written about them. The row decides what is gathered. */
export async function emailSubmissions(input: DigestInput): Promise<DigestOutcome['kind']> {
  setCurrentDetails(`⏳ submissions are gathered until ${input.due_at}`)
  const wait = { summary: `submissions are gathered until ${input.due_at}`, signal: 'The settings have changed.' }
  const outcome = await actWhenDue(input.due_at, wait, () => sendDigest(input))
  const text = textOf(outcome)
  setCurrentDetails(text)
  upsertMemo({ outcome: text })
  return outcome.kind
}

function textOf({ kind, count }: DigestOutcome): string {
  if (kind === 'sent') return `✅ an email about ${count} ${count === 1 ? 'submission' : 'submissions'}`
  return kind === 'postponed' ? '➖ postponed: too many emails about forms within an hour' : '➖ no submissions'
}
