import { maxOrdersPerWindow, maxOrdersTrying, orderTurnMs, orderWindowMs } from '../../core/certificates.ts'
import { orderedPlatformNames } from '../../infra/acme/platform-names.ts'
import { orderRetrySignal, orderStart } from '../../workflows/contract/certificates.ts'
import type { Services } from '../services.ts'
import { transact } from '../transact.ts'
import { signalWorkflows, startWorkflow } from '../workflow-messages.ts'
import {
  beginOrder,
  countOrders,
  insertPlatformNames,
  listDueNames,
  listWaitingPlatformOrders,
  tryLockOrders,
} from './certificates.ts'
import { deleteOldDnsChallenges } from './dns-challenges.ts'

/** Challenges older than any order. */
const oldChallengeMs = 3_600_000

/**
 * Begins the orders of names that are due, a few at once, so that hundreds of certificates that expire on one day are spread over hours. Any
 * process may call it at any time. Returns the number of orders that it began.
 */
export async function startDueOrders(services: Services, now: Date): Promise<number> {
  const { db, config, log } = services
  if (config.acme.directory === undefined) return 0
  const platformNames = orderedPlatformNames(config)
  const before = (ms: number) => new Date(now.getTime() - ms)
  await deleteOldDnsChallenges(db, before(oldChallengeMs))
  return await transact(services, async (tx) => {
    if (!(await tryLockOrders(tx))) return 0
    await insertPlatformNames(tx, platformNames, now)
    const { begun, trying } = await countOrders(tx, { begunAfter: before(orderWindowMs), tryingAfter: before(orderTurnMs) })
    const limit = Math.min(maxOrdersTrying - trying, maxOrdersPerWindow - begun)
    const due = limit > 0 ? await listDueNames(tx, now, { platformNames, limit }) : []
    for (const { name, domain_id, project_id, site_id } of due) {
      const order = await beginOrder(tx, { domain_id, name }, now)
      const owner = project_id !== null && site_id !== null ? { project_id, site_id } : null
      const { retryPauseMs: retry_pause_ms } = config.acme
      await startWorkflow(tx, orderStart({ ...order, name, retry_pause_ms }, owner))
    }
    const names = due.map(({ name }) => name)
    if (names.length > 0) tx.afterCommit(() => log.info({ names }, 'certificate orders begun'))
    return names.length
  })
}

/** Retries the orders of the platform's own names at once: at a start, because the operator may have fixed the cause of a failure. */
export async function retryPlatformOrders(services: Services): Promise<void> {
  const waiting = await listWaitingPlatformOrders(services.db, orderedPlatformNames(services.config))
  await transact(services, (tx) => signalWorkflows(tx, waiting.map(orderRetrySignal)))
}
