import { defineSearchAttributeKey } from '@temporalio/common'
import {
  ActivityFailure,
  isCancellation,
  proxyActivities,
  setCurrentDetails,
  sleep,
  upsertMemo,
  upsertSearchAttributes,
} from '@temporalio/workflow'
import { type FailedTries, maxFailedChecks, nextTryAt, orderPatienceMs, soonestTryAt } from '../../core/certificates.ts'
import type { CertificateActivities, OrderInput, OrderOutcome, OrderResult } from '../contract/certificates.ts'
import { signals } from '../contract/messages.ts'
import { causeOf, isPlatformFault } from './cause-of.ts'
import { createSignalFlag } from './signal-flag.ts'

const step = (summary: string) =>
  proxyActivities<CertificateActivities>({
    summary,
    startToCloseTimeout: '30s',
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '1m' },
  })
const { postponeOrder } = step('write down why it failed and when the next try begins')
const { giveUpOrder } = step('give the order up')

const { checkOrder } = proxyActivities<CertificateActivities>({
  summary: 'look whether the certificate authority would find the proof',
  startToCloseTimeout: '2m',
  heartbeatTimeout: '30s',
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '1m' },
})

const dueKey = defineSearchAttributeKey('DueAt', 'DATETIME')

/**
 * Has a certificate issued: looks first whether the proof would be found, asks the authority, and tries again after growing pauses. After
 * a failure an authority for rehearsals is asked first, when one is set. A certificate in use stays in use until then.
 */
export async function issueCertificate(input: OrderInput): Promise<OrderOutcome> {
  const { certificate_id, order_id, retry_pause_ms, give_up_after_ms = orderPatienceMs } = input
  const run = { certificate_id, order_id, retry_pause_ms }
  const giveUpAtMs = Date.now() + give_up_after_ms
  const refusedAtMs: number[] = []
  const waitForNextTry = createWaitForNextTry(input)
  let wasRefused = false
  let failedChecks = 0
  let tries = 0
  for (;;) {
    showProgress(input, '⏳ looking whether the proof would be found')
    const check = await checkOrder(run)
    if (check.state === 'stale') return end(input, { outcome: 'stale' })
    tries = Math.max(tries, check.tries) + 1
    let error = check.message
    if (check.state === 'failed' && failedChecks < maxFailedChecks) {
      failedChecks += 1
    } else {
      failedChecks = 0
      const isRisky = wasRefused || check.state === 'failed'
      const result = await askAuthorities(input, check.can_rehearse && isRisky, giveUpAtMs)
      if (result.state === 'stale') return end(input, { outcome: 'stale' })
      if (result.state === 'issued') return end(input, { outcome: 'issued', not_after: result.not_after })
      wasRefused = true
      error = result.error
      if (!result.rehearsal) refusedAtMs.push(Date.now())
    }
    const failed = { tries, refusedAtMs }
    const next = nextTryAt(failed, Date.now(), retry_pause_ms)
    if (next > giveUpAtMs) {
      await giveUpOrder({ ...run, error })
      return end(input, { outcome: 'given_up', error })
    }
    const next_try_at = new Date(next).toISOString()
    if (!(await postponeOrder({ ...run, error, tries, next_try_at }))) return end(input, { outcome: 'stale' })
    await waitForNextTry(error, failed, next)
  }
}

type Placed = Exclude<OrderResult, { state: 'rehearsed' | 'refused' }> | { state: 'refused'; error: string; rehearsal: boolean }

/** Asks the staging authority first, when that is wanted, and the real one when the rehearsal succeeds. */
async function askAuthorities(input: OrderInput, rehearse: boolean, giveUpAtMs: number): Promise<Placed> {
  const { certificate_id, order_id, retry_pause_ms } = input
  for (const rehearsal of rehearse ? [true, false] : [false]) {
    showProgress(input, rehearsal ? '⏳ rehearsing with the staging authority' : '⏳ asking the certificate authority')
    const { placeOrder } = proxyActivities<CertificateActivities>({
      summary: rehearsal ? 'rehearse with the staging authority' : 'order from the certificate authority',
      startToCloseTimeout: '5m',
      heartbeatTimeout: '30s',
      // an authority that is away comes back, so it is retried until the order is given up
      scheduleToCloseTimeout: Math.max(giveUpAtMs - Date.now(), 300_000),
      retry: { initialInterval: '5s', backoffCoefficient: 2, maximumInterval: '10m' },
    })
    try {
      const result = await placeOrder({ certificate_id, order_id, retry_pause_ms, rehearsal })
      if (result.state === 'refused') return { ...result, rehearsal }
      if (result.state !== 'rehearsed') return result
    } catch (error) {
      if (isCancellation(error) || !(error instanceof ActivityFailure)) throw error
      // a fault of the platform is no refusal by the authority
      return { state: 'refused', error: causeOf(error), rehearsal: rehearsal || isPlatformFault(error) }
    }
  }
  throw new Error('an order neither succeeded nor failed')
}

/** Waits for the next try. A signal ends the wait early, except a pause that the authority demands. */
function createWaitForNextTry(input: OrderInput) {
  const changed = createSignalFlag(signals.changed, 'What kept the order back may have changed: try it at once.')
  return async (error: string, failed: FailedTries, nextMs: number): Promise<void> => {
    const next = new Date(nextMs)
    showProgress(input, `❌ try ${failed.tries}: ${error}`, `⏳ tried again at ${next.toISOString()}, or when it is woken`)
    upsertSearchAttributes([{ key: dueKey, value: next }])
    const summary = `try ${failed.tries + 1} at ${next.toISOString()}: ${error}`.slice(0, 160)
    const soonestMs = soonestTryAt(failed)
    if (soonestMs > Date.now()) await sleep(soonestMs - Date.now(), { summary })
    await changed.wait(Math.max(nextMs - Date.now(), 1), summary)
    changed.lower()
  }
}

function end(input: OrderInput, outcome: OrderOutcome): OrderOutcome {
  const text = {
    issued: () => `✅ issued${outcome.outcome === 'issued' ? `, good until ${outcome.not_after}` : ''}`,
    given_up: () => `❌ given up${outcome.outcome === 'given_up' ? `: ${outcome.error}` : ''}`,
    stale: () => '➖ another order took its place, or nobody may order for the name any more',
  }[outcome.outcome]()
  showProgress(input, text)
  upsertMemo({ outcome: text })
  return outcome
}

const showProgress = ({ name }: OrderInput, ...lines: string[]) => setCurrentDetails([`**${name}**`, ...lines].join('\n\n'))
