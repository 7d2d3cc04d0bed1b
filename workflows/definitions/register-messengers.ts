import { proxyActivities, setCurrentDetails, upsertMemo } from '@temporalio/workflow'
import type { MessengerActivities } from '../contract/messengers.ts'

const { registerMessengerHooks } = proxyActivities<MessengerActivities>({
  summary: 'tell each messenger where its webhook is',
  startToCloseTimeout: '30s',
  retry: { initialInterval: '1s', maximumInterval: '1m', maximumAttempts: 5 },
})

/** Tells the messengers that are set up where their webhooks are, in case they have lost them. The result is for operators. */
export async function registerMessengers(): Promise<string> {
  setCurrentDetails('⏳ telling the messengers where their webhooks are')
  const done = await registerMessengerHooks()
  setCurrentDetails(`✅ ${done}`)
  upsertMemo({ outcome: done })
  return done
}
