import {
  continueAsNew,
  executeChild,
  isCancellation,
  ParentClosePolicy,
  proxyActivities,
  setCurrentDetails,
  upsertMemo,
  workflowInfo,
} from '@temporalio/workflow'
import { longestConnectPauseMs } from '../../core/limits.ts'
import { orderStart } from '../contract/certificates.ts'
import type { CertificateStep, DomainActivities, DomainInput, DomainOutcome } from '../contract/domains.ts'
import { signals } from '../contract/messages.ts'
import { typedSearchAttributes } from '../contract/search-attributes.ts'
import { createSignalFlag } from './signal-flag.ts'

const step = (summary: string) =>
  proxyActivities<DomainActivities>({
    summary,
    startToCloseTimeout: '30s',
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '1m' },
  })
const { checkDomain } = step('look for the TXT record that proves the ownership')
const { beginCertificate } = step('order a certificate, if there is none')
const { settleDomain } = step('tell the owner how it ended')

/** Looks for the TXT record of a domain until it is there, has a certificate issued, and emails the owner. */
export async function connectDomain(input: DomainInput): Promise<DomainOutcome> {
  const changed = createSignalFlag(signals.changed, 'The domain was verified by hand or removed: look at it again.')
  /** Returns early when the domain has changed. */
  const wait = async (pauseMs: number, summary: string) => {
    await changed.wait(pauseMs, summary)
    changed.lower()
  }
  const found = await waitForProof(input, wait)
  if (found !== 'verified') return end(input, found)
  const ordered = await certify(input, wait)
  return end(input, ordered === 'stale' ? ordered : await settle(input, wait))
}

type Wait = (pauseMs: number, summary: string) => Promise<void>

async function waitForProof(input: DomainInput, wait: Wait): Promise<'verified' | 'given_up' | 'stale'> {
  let pauseMs = input.check_interval_ms
  // the owner learns the value of the record only when the domain is added, so the first look-up comes later
  for (let look = false; ; look = true) {
    const check = await checkDomain({ ...runOf(input), look, pause_ms: pauseMs })
    if (check.state !== 'waiting') return check.state
    showProgress(input, `⏳ ${check.message}`, `looks next at ${check.next_check_at}, or when it is woken`)
    await wait(pauseMs, `next look at ${check.next_check_at}`)
    if (look) pauseMs = longer(pauseMs)
    if (workflowInfo().continueAsNewSuggested) {
      await continueAsNew<typeof connectDomain>({ ...input, check_interval_ms: pauseMs })
    }
  }
}

async function certify(input: DomainInput, wait: Wait): Promise<'done' | 'stale'> {
  for (let pauseMs = input.check_interval_ms; ; pauseMs = longer(pauseMs)) {
    const certificate = await beginCertificate(runOf(input))
    if (certificate.state === 'stale') return 'stale'
    if (certificate.state === 'none') return 'done'
    if (certificate.state === 'ordered') {
      showProgress(input, '✅ verified', '⏳ a certificate is ordered')
      await issue(certificate)
      return 'done'
    }
    showProgress(input, '✅ verified', '⏳ the site is in the trash: waits until it is restored')
    await wait(pauseMs, 'the site is in the trash')
  }
}

/** The child outlives this workflow: its order is a row of its own. */
async function issue({ order, owner }: Extract<CertificateStep, { state: 'ordered' }>): Promise<void> {
  const { workflow_id, type, summary, attributes } = orderStart(order, owner)
  try {
    await executeChild(type, {
      workflowId: workflow_id,
      args: [order],
      parentClosePolicy: ParentClosePolicy.ABANDON,
      staticSummary: summary,
      typedSearchAttributes: typedSearchAttributes(attributes),
    })
  } catch (error) {
    // it was started elsewhere, or ended from outside: the row of the certificate decides what comes next
    if (isCancellation(error)) throw error
  }
}

async function settle(input: DomainInput, wait: Wait): Promise<DomainOutcome> {
  for (let pauseMs = input.check_interval_ms; ; pauseMs = longer(pauseMs)) {
    const settled = await settleDomain(runOf(input))
    if (settled !== 'pending') return settled
    showProgress(input, '✅ verified', '⏳ waits for its certificate')
    await wait(pauseMs, 'waits for its certificate')
  }
}

const endings: Readonly<Record<DomainOutcome, string>> = {
  live: '✅ live',
  without_certificate: '⚠️ verified, but no certificate could be had',
  given_up: '❌ given up: no proof was found',
  stale: '➖ the domain was removed, or another attempt owns it',
}

function end(input: DomainInput, outcome: DomainOutcome): DomainOutcome {
  showProgress(input, endings[outcome])
  upsertMemo({ outcome: endings[outcome] })
  return outcome
}

const showProgress = ({ domain }: DomainInput, ...lines: string[]) => setCurrentDetails([`**${domain}**`, ...lines].join('\n\n'))
const runOf = ({ domain_id, attempt }: DomainInput) => ({ domain_id, attempt })
const longer = (pauseMs: number) => Math.min(pauseMs * 2, longestConnectPauseMs)
