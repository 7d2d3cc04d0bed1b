import { proxyActivities, setCurrentDetails, upsertMemo } from '@temporalio/workflow'
import type { SiteActivities, SubdomainChangeInput, SubdomainChangeOutcome } from '../contract/sites.ts'
import { actWhenDue } from './act-when-due.ts'

const { applySubdomainChange } = proxyActivities<SiteActivities>({
  summary: 'give the site its new subdomain, unless the change was cancelled',
  startToCloseTimeout: '30s',
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '1m' },
})

/** Waits until the instant of a subdomain change, then makes it. Cancelling the change, or trashing the site, ends the wait. */
export async function switchSubdomain(input: SubdomainChangeInput): Promise<SubdomainChangeOutcome> {
  const { site_id, switch_at } = input
  setCurrentDetails(
    `⏳ the old address serves until ${switch_at}, then the new one. \`DELETE /api/v1/sites/${site_id}/subdomain-change\` keeps the old one.`,
  )
  const wait = { summary: `switch at ${switch_at}`, signal: 'The change was cancelled.' }
  const outcome = await actWhenDue(switch_at, wait, () => applySubdomainChange(input))
  const text = outcome === 'switched' ? '✅ switched; the old address leads to the new one' : '➖ cancelled'
  setCurrentDetails(text)
  upsertMemo({ outcome: text })
  return outcome
}
