import { fileURLToPath } from 'node:url'
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker'
import { startWorker, type TemporalAddress } from '../infra/temporal/worker.ts'
import { type CertificateActivityDeps, createCertificateActivities } from './activities/certificates.ts'
import { createCheckActivities } from './activities/checks.ts'
import { createDeployActivities, type DeployActivityDeps } from './activities/deploys.ts'
import { createDomainActivities, type DomainActivityDeps } from './activities/domains.ts'
import { createMailActivities, type MailActivityDeps } from './activities/mails.ts'
import { createNameActivities } from './activities/names.ts'
import { createRecheckActivities } from './activities/recheck-domains.ts'
import { createRetentionActivities } from './activities/retention.ts'
import { createStorageActivities, type StorageActivityDeps } from './activities/storage.ts'
import { queues } from './contract.ts'

const workflowsPath = fileURLToPath(new URL('./definitions/index.ts', import.meta.url))

/** The code that runs inside the workflow sandbox, as one script; takes a second or two of webpack. */
export const bundleWorkflows = () => bundleWorkflowCode({ workflowsPath, logger: new DefaultLogger('WARN') })

/**
 * Works on the control queue: workflows and the activities that need the database. Closing lets running steps end.
 * @param bundle from {@link bundleWorkflows}
 */
export function startControlWorker(
  temporal: TemporalAddress,
  deps: DeployActivityDeps & StorageActivityDeps & MailActivityDeps & DomainActivityDeps & CertificateActivityDeps,
  bundle: { readonly code: string },
): AsyncDisposable {
  const options = {
    taskQueue: queues.control,
    workflowBundle: bundle,
    activities: {
      ...createDeployActivities(deps),
      ...createRetentionActivities(deps),
      ...createCheckActivities(deps),
      ...createStorageActivities(deps),
      ...createDomainActivities(deps),
      ...createRecheckActivities(deps),
      ...createCertificateActivities(deps),
      ...createNameActivities(deps),
      ...createMailActivities(deps),
    },
    // a killed worker costs this long, not the default 10 s
    stickyQueueScheduleToStartTimeout: '2s',
    shutdownGraceTime: '20s',
  } as const
  return startWorker(temporal, options, deps.log)
}
