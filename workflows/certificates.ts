import { maxOrdersPerWindow, maxOrdersTrying, orderTurnMs, orderWindowMs } from '../core/certificates.ts'
import { orderedPlatformNames } from '../infra/acme/platform-names.ts'
import type { Config } from '../infra/config.ts'
import type { Db } from '../infra/db/database.ts'
import type { Logger } from '../infra/log.ts'
import {
  beginOrder,
  countOrders,
  insertPlatformNames,
  listDueNames,
  listWaitingPlatformOrders,
  tryOrdersTurn,
} from '../services/certificates/certificates.ts'
import { deleteOldDnsChallenges } from '../services/certificates/dns-challenges.ts'
import { insertWorkflowSignals, insertWorkflowStart } from '../services/workflow-messages.ts'
import type { Relay } from './client.ts'
import { orderRetrySignal, orderStart } from './contract/certificates.ts'

export interface OrdersDeps {
  readonly db: Db
  readonly config: Config
  readonly relay: Pick<Relay, 'wake'>
  readonly log: Logger
}

/** No order takes longer. */
const oldChallengeMs = 3_600_000

/**
 * Begins the orders of names that are due, a few at once: a day on which hundreds of certificates end is spread over hours. Any process may
 * call it at any time. Answers how many it began.
 */
export async function startDueOrders({ db, config, relay, log }: OrdersDeps, now: Date): Promise<number> {
  if (config.acme.directory === undefined) return 0
  const platformNames = orderedPlatformNames(config)
  const before = (ms: number) => new Date(now.getTime() - ms)
  await deleteOldDnsChallenges(db, before(oldChallengeMs))
  const names = await db.transaction().execute(async (tx) => {
    if (!(await tryOrdersTurn(tx))) return []
    await insertPlatformNames(tx, platformNames, now)
    const { begun, trying } = await countOrders(tx, { begunAfter: before(orderWindowMs), tryingAfter: before(orderTurnMs) })
    const limit = Math.min(maxOrdersTrying - trying, maxOrdersPerWindow - begun)
    const due = limit > 0 ? await listDueNames(tx, now, { platformNames, limit }) : []
    for (const { name, domain_id, project_id, site_id } of due) {
      const order = await beginOrder(tx, { domain_id, name }, now)
      const owner = project_id !== null && site_id !== null ? { project_id, site_id } : null
      const { retryPauseMs: retry_pause_ms } = config.acme
      await insertWorkflowStart(tx, orderStart({ ...order, name, retry_pause_ms }, owner))
    }
    return due.map(({ name }) => name)
  })
  relay.wake()
  if (names.length > 0) log.info({ names }, 'certificate orders begun')
  return names.length
}

/** Has the orders of the platform's own names tried at once: at a start, when the operator may have mended what kept them back. */
export async function retryPlatformOrders({ db, config, relay }: OrdersDeps): Promise<void> {
  const waiting = await listWaitingPlatformOrders(db, orderedPlatformNames(config))
  await db.transaction().execute((tx) => insertWorkflowSignals(tx, waiting.map(orderRetrySignal)))
  relay.wake()
}
