import { fileURLToPath } from 'node:url'
import { openSourceFetcher } from '../infra/git/source-fetcher.ts'
import { bundleWorkflowCode } from '../infra/temporal/bundle.ts'
import { startWorker, type TemporalAddress } from '../infra/temporal/worker.ts'
import type { Services } from '../services/services.ts'
import type { ScrubServices } from '../services/storage/scrub.ts'
import { type CertificateActivityDeps, createCertificateActivities } from './activities/certificates.ts'
import { type CheckActivityDeps, createCheckActivities } from './activities/checks.ts'
import { createDeployActivities } from './activities/deploys.ts'
import { createDomainActivities, type DomainActivityDeps } from './activities/domains.ts'
import { createMailActivities, type MailActivityDeps } from './activities/emails.ts'
import { createFetchActivities, fetchesDir } from './activities/fetch-repository.ts'
import { createRecheckActivities } from './activities/recheck-domains.ts'
import { createReportActivities } from './activities/reports.ts'
import { createRetentionActivities } from './activities/retention.ts'
import { createScrubActivities } from './activities/scrub.ts'
import { createSiteActivities } from './activities/sites.ts'
import { createStorageActivities } from './activities/storage.ts'
import { queues } from './contract/messages.ts'

const workflowsPath = fileURLToPath(new URL('./definitions/index.ts', import.meta.url))

export const bundleWorkflows = () => bundleWorkflowCode(workflowsPath)

/** A forge that answers slowly holds up reports to other forges when as many are on their way, and nothing else. */
const reportsAtOnce = 50

/**
 * Works on the control queue: workflows and the activities that need the database; and on the report queue. Closing lets running steps end.
 * @param bundle from {@link bundleWorkflows}
 */
export function startControlWorker(
  temporal: TemporalAddress,
  deps: MailActivityDeps & DomainActivityDeps & CertificateActivityDeps & CheckActivityDeps & ScrubServices,
  bundle: { readonly code: string },
): AsyncDisposable {
  const stack = new AsyncDisposableStack()
  const reports = createReportActivities(deps)
  const reportOptions = {
    taskQueue: queues.report,
    activities: { ...reports },
    maxConcurrentActivityTaskExecutions: reportsAtOnce,
    shutdownGraceTime: '2s',
  } as const
  stack.use(startWorker(temporal, reportOptions, deps.log))
  const options = {
    taskQueue: queues.control,
    workflowBundle: bundle,
    activities: {
      ...createDeployActivities(deps),
      ...createRetentionActivities(deps),
      ...createCheckActivities(deps),
      ...createStorageActivities(deps),
      ...createScrubActivities(deps),
      ...createDomainActivities(deps),
      ...createRecheckActivities(deps),
      ...createCertificateActivities(deps),
      ...createSiteActivities(deps),
      ...createMailActivities(deps),
      ...reports,
    },
    // a killed worker costs this long, not the default 10 s
    stickyQueueScheduleToStartTimeout: '2s',
    // the launcher kills after 10 s
    shutdownGraceTime: '7s',
  } as const
  stack.use(startWorker(temporal, options, deps.log))
  return stack
}

/** Each is a process of its own with memory to match. */
const repositoriesAtOnce = 3

/** Works on the fetch queue. Closing ends what is being fetched; another worker, or the next start, fetches it again. */
export function startFetchWorker(temporal: TemporalAddress, services: Services): AsyncDisposable {
  const stack = new AsyncDisposableStack()
  const fetcher = stack.use(openSourceFetcher(fetchesDir(services.config)))
  const options = {
    taskQueue: queues.fetch,
    activities: { ...createFetchActivities({ ...services, fetcher }) },
    maxConcurrentActivityTaskExecutions: repositoriesAtOnce,
    shutdownGraceTime: 0,
    // a cancellation arrives with the answer to a heartbeat
    maxHeartbeatThrottleInterval: '2s',
  }
  stack.use(startWorker(temporal, options, services.log))
  return stack
}
