import { continueAsNew, proxyActivities, setCurrentDetails, sleep, upsertMemo, workflowInfo } from '@temporalio/workflow'
import { queues, signals } from '../contract/messages.ts'
import type { CheckoutInput, CheckoutOutcome, PaymentActivities } from '../contract/payments.ts'
import { createSignalFlag } from './signal-flag.ts'

const { lookAtCheckout } = proxyActivities<PaymentActivities>({
  taskQueue: queues.payment,
  startToCloseTimeout: '30s',
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '1m' },
})

/** Callbacks that arrive together cause one question to the provider. */
const pauseAfterSignalMs = 1000

const endings: Readonly<Record<CheckoutOutcome, string>> = {
  paid: '✅ paid',
  expired: '➖ not paid in time',
  refunded: '↩️ refunded: the access has ended',
  refused: '❌ what was paid is not what was asked for: no access was given',
  gone: '➖ the site was removed',
}

/** Begins a payment at its provider and follows it until it has ended. A callback after that runs it again, which finds a refund. */
export async function followCheckout(input: CheckoutInput): Promise<CheckoutOutcome> {
  const changed = createSignalFlag(signals.changed, 'The provider called, or the visitor came back: ask how the payment goes.')
  for (let summary = 'begin the payment at the provider, or ask how it goes'; ; ) {
    changed.lower()
    const step = await lookAtCheckout.executeWithOptions({ summary }, [input])
    if (step.state === 'waiting') {
      setCurrentDetails(`⏳ ${step.message}`)
      if (step.begun) summary = 'ask the provider how the payment goes'
      await changed.wait(step.wait_ms, step.message)
    } else if (!changed.isRaised()) {
      setCurrentDetails(endings[step.outcome])
      upsertMemo({ outcome: endings[step.outcome] })
      return step.outcome
    }
    if (changed.isRaised()) await sleep(pauseAfterSignalMs, { summary: 'let callbacks that arrive together arrive' })
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof followCheckout>(input)
  }
}
