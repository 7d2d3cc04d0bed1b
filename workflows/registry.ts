import type { Duration } from '@temporalio/common'
import { listStalledReplies } from '../services/autoreply/stalled.ts'
import { giveUpDeploy } from '../services/builds/give-up.ts'
import { listStalledOrders } from '../services/certificates/certificates.ts'
import { listProjectsToCompress } from '../services/deploys/compress.ts'
import { restartDeploy } from '../services/deploys/restart.ts'
import { listStalledDeploys } from '../services/deploys/runs.ts'
import { restartDomain } from '../services/domains/connect.ts'
import { listStalledDomains } from '../services/domains/connecting.ts'
import { listWaitingEmails } from '../services/emails/emails.ts'
import { listDueDigests } from '../services/forms/digests.ts'
import { listWaitingCodes } from '../services/members/send-code.ts'
import type { MessengerServices } from '../services/messengers/services.ts'
import { listStalledCheckouts } from '../services/payments/stalled.ts'
import { listDueTrash } from '../services/removal/sites.ts'
import { listSitesToReport } from '../services/reports/due.ts'
import { listDueSubdomainChanges } from '../services/sites/subdomain-change-rows.ts'
import type { ScrubServices } from '../services/storage/scrub.ts'
import { listStalledDeliveries } from '../services/webhooks/tries.ts'
import { createAutoreplyActivities } from './activities/autoreply.ts'
import { type CertificateActivityDeps, createCertificateActivities } from './activities/certificates.ts'
import { type CheckActivityDeps, createCheckActivities } from './activities/checks.ts'
import { createCodeActivities } from './activities/codes.ts'
import { createCompressionActivities } from './activities/compression.ts'
import { createDeployActivities } from './activities/deploys.ts'
import { createDomainActivities, type DomainActivityDeps } from './activities/domains.ts'
import { createEmailActivities, type EmailActivityDeps } from './activities/emails.ts'
import { createFetchActivities, type FetchActivityDeps } from './activities/fetch-repository.ts'
import { createFormActivities } from './activities/forms.ts'
import { createMessengerActivities } from './activities/messengers.ts'
import { createPaymentActivities } from './activities/payments.ts'
import { createRecheckActivities } from './activities/recheck-domains.ts'
import { createReportActivities } from './activities/reports.ts'
import { createRetentionActivities } from './activities/retention.ts'
import { createScrubActivities } from './activities/scrub.ts'
import { createSiteActivities } from './activities/sites.ts'
import { createStatsActivities } from './activities/stats.ts'
import { createStorageActivities } from './activities/storage.ts'
import { createWebhookActivities } from './activities/webhooks.ts'
import { autoreplyStart } from './contract/autoreply.ts'
import { orderStart } from './contract/certificates.ts'
import { codeStart } from './contract/codes.ts'
import { compressionSignal } from './contract/compression.ts'
import { deployWorkflowId } from './contract/deploys.ts'
import { domainWorkflowId } from './contract/domains.ts'
import { emailStart } from './contract/emails.ts'
import { digestStart } from './contract/forms.ts'
import type { queues } from './contract/messages.ts'
import { checkoutSignal } from './contract/payments.ts'
import { reportsSignal } from './contract/reports.ts'
import { subdomainChangeStart, trashStart } from './contract/sites.ts'
import { deliveryStart } from './contract/webhooks.ts'
import type { WorkflowInputs, WorkflowType } from './contract/workflows.ts'
import { allById, allPages, due, type FindStalled, moved, sameOccurrence } from './stalled.ts'

/** The dependencies of the activities of all workflows. */
export type WorkerDeps = EmailActivityDeps &
  DomainActivityDeps &
  CertificateActivityDeps &
  CheckActivityDeps &
  FetchActivityDeps &
  MessengerServices &
  ScrubServices

/** The queues that the worker works on; the build queue is the runner's. */
export type WorkerQueue = Exclude<keyof typeof queues, 'build'>

export interface Schedule<Input = unknown> {
  readonly schedule_id: string
  /** Temporal adds the instant to the id of each workflow. */
  readonly workflow_id: string
  readonly every: Duration
  readonly jitter?: Duration
  /** A missed run is made up for if it is at most this late. */
  readonly catchupWindow: Duration
  /** One line of Markdown for the Temporal UI. */
  readonly summary: string
  readonly input: Input
}

interface Registration<Type extends WorkflowType> {
  /** The activities that it needs, by their queue. */
  readonly activities: Readonly<Partial<Record<WorkerQueue, readonly ((deps: WorkerDeps) => object)[]>>>
  /** Finds the rows whose workflow should be running, with the start of each. */
  readonly stalled?: FindStalled
  /** Starts it regularly, never beside itself. */
  readonly schedule?: Schedule<WorkflowInputs[Type]>
}

const hourly = <Input>(workflow_id: string, summary: string, input: Input) =>
  ({
    schedule_id: `schedule:${workflow_id}`,
    workflow_id,
    every: '1h',
    jitter: '10m',
    catchupWindow: '5m',
    summary,
    input,
  }) as const satisfies Schedule

/** Every workflow: its activities for the worker, its stalled rows for the reconciler, and its schedule. */
export const registry = {
  deploy: {
    activities: {
      control: [createDeployActivities, createRetentionActivities, createCheckActivities],
      fetch: [createFetchActivities],
    },
    stalled: allById(
      moved(listStalledDeploys),
      (deploy) => deploy.deploy_id,
      (deploy) => ({
        workflow_id: deployWorkflowId(deploy),
        restart: ({ services }) => restartDeploy(services, deploy),
        giveUp: ({ services }) => giveUpDeploy(services, deploy),
      }),
    ),
  },
  connectDomain: {
    activities: { control: [createDomainActivities] },
    stalled: allById(
      moved(listStalledDomains),
      (domain) => domain.domain_id,
      (domain) => ({
        workflow_id: domainWorkflowId(domain),
        restart: ({ services, now, checkIntervalMs }) =>
          restartDomain(services, { ...domain, check_interval_ms: checkIntervalMs }, now),
      }),
    ),
  },
  issueCertificate: {
    activities: { control: [createCertificateActivities] },
    stalled: allById(
      moved(listStalledOrders),
      (order) => order.certificate_id,
      ({ project_id, site_id, ...order }, { retryPauseMs }) => {
        const owner = project_id !== null && site_id !== null ? { project_id, site_id } : null
        return sameOccurrence(orderStart({ ...order, retry_pause_ms: retryPauseMs }, owner))
      },
    ),
  },
  expireTrashedSite: {
    activities: { control: [createSiteActivities] },
    stalled: allById(
      due(listDueTrash),
      (site) => site.site_id,
      (site) => sameOccurrence(trashStart(site)),
    ),
  },
  switchSubdomain: {
    activities: { control: [createSiteActivities] },
    stalled: allById(
      due(listDueSubdomainChanges),
      (change) => change.change_id,
      (change) => sameOccurrence(subdomainChangeStart(change)),
    ),
  },
  reportToForge: {
    activities: { control: [createReportActivities], report: [createReportActivities] },
    stalled: allPages(
      async ({ services, now, movedBefore, limit }, afterId) => {
        const { sites, lastId } = await listSitesToReport(services.db, { now, before: movedBefore, limit, afterId })
        return { rows: sites, next: lastId }
      },
      (site) => sameOccurrence(reportsSignal(site)),
    ),
  },
  sendEmail: {
    activities: { control: [createEmailActivities] },
    stalled: allById(
      moved(listWaitingEmails),
      (email) => email.id,
      (email) => sameOccurrence(emailStart({ ...email, about: email.subject })),
    ),
  },
  sendCode: {
    activities: { control: [createCodeActivities] },
    stalled: allById(
      moved(listWaitingCodes),
      (code) => code.code_id,
      (code) => sameOccurrence(codeStart(code)),
    ),
  },
  emailSubmissions: {
    activities: { control: [createFormActivities] },
    stalled: allById(
      due(listDueDigests),
      (digest) => digest.site_id,
      (digest) => sameOccurrence(digestStart(digest)),
    ),
  },
  sendAutoreply: {
    activities: { control: [createAutoreplyActivities, createEmailActivities] },
    stalled: allById(
      moved(listStalledReplies),
      (reply) => reply.submission_id,
      (reply) => sameOccurrence(autoreplyStart(reply)),
    ),
  },
  deliverWebhook: {
    activities: { control: [createWebhookActivities], webhook: [createWebhookActivities] },
    stalled: allById(
      moved(listStalledDeliveries),
      (delivery) => delivery.delivery_id,
      (delivery) => sameOccurrence(deliveryStart(delivery)),
    ),
  },
  followCheckout: {
    activities: { payment: [createPaymentActivities] },
    // those that were paid are looked at again too, because the callback about a refund may have been lost
    stalled: allById(
      moved(listStalledCheckouts),
      (checkout) => checkout.checkout_id,
      (checkout) => sameOccurrence(checkoutSignal(checkout)),
    ),
  },
  compressFiles: {
    activities: { compress: [createCompressionActivities] },
    stalled: allById(
      moved(listProjectsToCompress),
      (project) => project.project_id,
      (project) => sameOccurrence(compressionSignal(project)),
    ),
  },
  sweepStorage: {
    activities: { control: [createStorageActivities] },
    schedule: hourly('sweep-storage', '**Storage** gives up unused blobs and objects', {}),
  },
  scrubStorage: {
    activities: { control: [createScrubActivities] },
    schedule: hourly('scrub-storage', '**Storage** is read and compared with its hashes', {}),
  },
  rollUpStats: {
    activities: { control: [createStatsActivities] },
    schedule: hourly('roll-up-stats', '**Statistics** of days that are over become small', undefined),
  },
  recheckDomains: {
    activities: { control: [createRecheckActivities] },
    schedule: hourly('recheck-domains', '**Domains** are looked up again', undefined),
  },
  renewCertificates: {
    activities: { control: [createCertificateActivities] },
    schedule: {
      schedule_id: 'schedule:renew-certificates',
      workflow_id: 'renew-certificates',
      every: '5m',
      catchupWindow: '1m',
      summary: '**Certificates** that are due are ordered again',
      input: undefined,
    },
  },
  registerMessengers: {
    activities: { control: [createMessengerActivities] },
    schedule: hourly('register-messengers', '**Messengers** learn where their webhooks are', undefined),
  },
} as const satisfies { readonly [Type in WorkflowType]: Registration<Type> }

const registrations: readonly Registration<WorkflowType>[] = Object.values(registry)

/** The workflows that are started regularly. */
export const scheduled = Object.entries<Registration<WorkflowType>>(registry).flatMap(([type, { schedule }]) =>
  schedule ? [{ type, ...schedule }] : [],
)

/** All searches for stalled work, with the type of their workflow. */
export const stalledSearches = () =>
  Object.entries<Registration<WorkflowType>>(registry).flatMap(([type, { stalled: find }]) => (find ? [{ type, find }] : []))

/** The activities of a queue, each factory called once. */
export function activitiesOf(queue: WorkerQueue, deps: WorkerDeps): Record<string, (...args: never[]) => unknown> {
  const factories = new Set(registrations.flatMap(({ activities }) => activities[queue] ?? []))
  return Object.assign({}, ...[...factories].map((create) => create(deps)))
}
