import { proxyActivities, setCurrentDetails, upsertMemo } from '@temporalio/workflow'
import type { SiteActivities, TrashInput, TrashOutcome } from '../contract/sites.ts'
import { actWhenDue } from './act-when-due.ts'

const { purgeSite } = proxyActivities<SiteActivities>({
  summary: 'remove the site for good, unless it was restored',
  startToCloseTimeout: '2h',
  heartbeatTimeout: '1m',
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '1m' },
})

/** Waits until the time of a site in the trash is over, then has it removed for good. A restore ends the wait. */
export async function expireTrashedSite(input: TrashInput): Promise<TrashOutcome> {
  const { site_id, purge_at } = input
  setCurrentDetails(
    `⏳ in the trash until ${purge_at}, then removed for good. \`POST /api/v1/sites/${site_id}/restore\` brings the site back.`,
  )
  const wait = { summary: `in the trash until ${purge_at}`, signal: 'The site was restored.' }
  const outcome = await actWhenDue(purge_at, wait, () => purgeSite(input))
  const text = outcome === 'purged' ? '✅ removed for good' : '➖ restored'
  setCurrentDetails(text)
  upsertMemo({ outcome: text })
  return outcome
}
