import { proxyActivities, setCurrentDetails, upsertMemo } from '@temporalio/workflow'
import type { CertificateActivities } from '../contract/certificates.ts'

const { startDueOrders } = proxyActivities<CertificateActivities>({
  summary: 'begin the orders of certificates that are due, a few at once',
  startToCloseTimeout: '30s',
  retry: { initialInterval: '1s', maximumInterval: '1m', maximumAttempts: 5 },
})

/** Begins the renewal of certificates that are due, each by a workflow of its own. The result is for operators. */
export async function renewCertificates(): Promise<string> {
  setCurrentDetails('⏳ looking for certificates that are due')
  const done = await startDueOrders()
  setCurrentDetails(`✅ ${done}`)
  upsertMemo({ outcome: done })
  return done
}
