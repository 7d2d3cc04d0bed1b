import { proxyActivities, proxyLocalActivities, sleep, workflowInfo } from '@temporalio/workflow'
import type { CertificateActivities, OrderInput } from '../../../workflows/contract/certificates.ts'
import type { DeployActivities, DeployInput } from '../../../workflows/contract/deploys.ts'
import type { DomainActivities, DomainInput } from '../../../workflows/contract/domains.ts'
import type { CheckoutInput, PaymentActivities } from '../../../workflows/contract/payments.ts'
import type { ForgeReportsInput, ReportActivities } from '../../../workflows/contract/reports.ts'
import type { SiteActivities, SubdomainChangeInput, TrashInput } from '../../../workflows/contract/sites.ts'
import type { StorageActivities } from '../../../workflows/contract/storage.ts'

const { claimDeploy, publishDeploy } = proxyLocalActivities<DeployActivities>({ startToCloseTimeout: '15s' })

/** The deploy workflow with its steps in another order: no recorded history may replay with it. */
export async function deploy(input: DeployInput): Promise<void> {
  const run = { ...input, run_id: workflowInfo().runId }
  await publishDeploy(run)
  await claimDeploy(run)
}

const { sweepObjects, dropUnusedBlobs } = proxyActivities<StorageActivities>({ startToCloseTimeout: '15s' })

export async function sweepStorage(): Promise<void> {
  await sweepObjects({})
  await dropUnusedBlobs()
}

const { lookAtCheckout } = proxyActivities<PaymentActivities>({ startToCloseTimeout: '15s' })

export async function followCheckout(input: CheckoutInput): Promise<void> {
  await sleep(1)
  await lookAtCheckout(input)
}

export async function scrubStorage(): Promise<void> {
  await sleep(1)
}

const { settleDomain, checkDomain } = proxyActivities<DomainActivities>({ startToCloseTimeout: '15s' })

export async function connectDomain(input: DomainInput): Promise<void> {
  await settleDomain(input)
  await checkDomain({ ...input, look: true, pause_ms: 1 })
}

export async function recheckDomains(): Promise<void> {
  await sleep(1)
}

const { purgeSite, applySubdomainChange } = proxyActivities<SiteActivities>({ startToCloseTimeout: '15s' })

export async function expireTrashedSite(input: TrashInput): Promise<void> {
  await purgeSite(input)
}

export async function switchSubdomain(input: SubdomainChangeInput): Promise<void> {
  await applySubdomainChange(input)
}

const { placeOrder, checkOrder } = proxyActivities<CertificateActivities>({ startToCloseTimeout: '15s' })

export async function issueCertificate(input: OrderInput): Promise<void> {
  await placeOrder({ ...input, rehearsal: false })
  await checkOrder(input)
}

export async function registerMessengers(): Promise<void> {
  await sleep(1)
}

export async function renewCertificates(): Promise<void> {
  await sleep(1)
}

const reports = proxyActivities<ReportActivities>({ startToCloseTimeout: '15s' })

export async function reportToForge(input: ForgeReportsInput): Promise<void> {
  await reports.dueReports(input)
}

export async function sendEmail(): Promise<void> {
  await sleep(1)
}

export async function sendCode(): Promise<void> {
  await sleep(1)
}

export async function sendAutoreply(): Promise<void> {
  await sleep(1)
}

export async function deliverWebhook(): Promise<void> {
  await sleep(1)
}
