import { rm } from 'node:fs/promises'
import { openBuildLogs } from '../infra/build-logs/open.ts'
import { openCas, openCopies } from '../infra/cas/open.ts'
import { type Config, required } from '../infra/config.ts'
import { createPreviewTokens } from '../infra/crypto/preview-tokens.ts'
import { openKeyring } from '../infra/crypto/seal.ts'
import { openDatabaseClock } from '../infra/db/clock.ts'
import { openDatabase } from '../infra/db/database.ts'
import { openAuthority } from '../infra/dns/authority.ts'
import { cachedChallenges } from '../infra/dns/challenge-records.ts'
import { parseServerAddress } from '../infra/dns/servers.ts'
import { openSourceFetcher } from '../infra/git/source-fetcher.ts'
import type { Logger } from '../infra/log.ts'
import { openMailer } from '../infra/mail/mailer.ts'
import { openMessengers } from '../infra/messengers/open.ts'
import type { TemporalAddress } from '../infra/temporal/worker.ts'
import { listDnsChallenges } from '../services/certificates/dns-challenges.ts'
import { retryPlatformOrders, startDueOrders } from '../services/certificates/due-orders.ts'
import { openFactsReader } from '../services/checks/facts-reader.ts'
import { createSiteChecks } from '../services/checks/find-recommendations.ts'
import { openDomainLookUp } from '../services/domains/look-up.ts'
import { createFreshness } from '../services/feeds/freshness.ts'
import { registerHooks } from '../services/messengers/hooks.ts'
import { finishErasures } from '../services/removal/erase-project.ts'
import type { Services } from '../services/services.ts'
import { removeAbandonedUploads } from '../services/storage/sweep.ts'
import { fetchesDir } from './activities/fetch-repository.ts'
import { openWorkflowClient, startRelay, type WorkflowClient } from './client.ts'
import { startReconciler } from './reconciler.ts'
import type { WorkerDeps, WorkerQueue } from './registry.ts'
import { startSchedules } from './schedules.ts'
import { startQueues } from './worker.ts'

export interface WorkerOptions {
  readonly config: Config
  /** The result of `bundleWorkflows`. */
  readonly bundle: Promise<{ readonly code: string }>
  readonly log: Logger
}

/** Works on the queues of the worker, restarts what is stalled, and keeps the schedules. */
export async function openWorker({ config, bundle, log }: WorkerOptions): Promise<AsyncDisposable> {
  const temporal = { address: required(config.temporal.address, 'PLINTH_TEMPORAL_ADDRESS'), namespace: config.temporal.namespace }
  const secretKey = required(config.secretKey, 'PLINTH_SECRET_KEY')
  await using stack = new AsyncDisposableStack()
  const { db } = stack.use(openDatabase(required(config.database.url, 'PLINTH_DATABASE_URL')))
  const client = stack.use(openWorkflowClient(temporal))
  const { clock } = stack.use(await openDatabaseClock(db, log))
  const services: Services = {
    config,
    db,
    cas: await openCas(config.storage.url),
    buildLogs: openBuildLogs(config.storage.url),
    previewTokens: createPreviewTokens(secretKey),
    keyring: openKeyring(secretKey),
    relay: stack.use(startRelay(db, client, log)),
    freshness: createFreshness({ db, log, clock }),
    log,
    clock,
  }
  // removes the files of repositories that a crash left behind
  await rm(fetchesDir(config), { recursive: true, force: true })
  stack.use(await openQueues({ services, temporal, bundle }))
  const dns = config.acme.directory && config.acme.dns
  if (dns) {
    const listen = parseServerAddress(dns.listen, 'PLINTH_ACME_DNS_LISTEN')
    stack.use(await openAuthority({ listen, zone: dns.zone, findTxt: cachedChallenges(() => listDnsChallenges(db)) }))
  }
  retryPlatformOrders(services).catch((error: Error) => log.warn({ err: error }, 'certificate orders of the platform wait'))
  registerHooks({ ...services, messengers: openMessengers(config) }).catch((error: Error) =>
    log.warn({ err: error }, 'webhooks of messengers wait'),
  )
  stack.use(startRepairs(services, client))
  stack.use(startSchedules(temporal, log))
  return stack.move()
}

export interface QueuesOptions {
  readonly services: Services
  readonly temporal: TemporalAddress
  readonly bundle: WorkerOptions['bundle']
  /** All queues of the worker, when it is left out. */
  readonly queues?: readonly WorkerQueue[] | undefined
  /** How long a certificate authority may take for one order. */
  readonly orderPatienceMs?: number | undefined
}

/** Works on queues, without looking for stalled or due work. */
export async function openQueues({
  services,
  temporal,
  bundle,
  queues,
  orderPatienceMs,
}: QueuesOptions): Promise<AsyncDisposable> {
  const { config, cas } = services
  const { smtpUrl } = config.mail
  await using stack = new AsyncDisposableStack()
  const deps: WorkerDeps = {
    ...services,
    copies: openCopies(config.storage.copies),
    lookUpDomain: openDomainLookUp(config),
    mailer: smtpUrl === undefined ? undefined : stack.use(await openMailer(smtpUrl)),
    siteChecks: createSiteChecks(cas, stack.use(openFactsReader())),
    fetcher: stack.use(openSourceFetcher(fetchesDir(config))),
    messengers: openMessengers(config),
    orderPatienceMs,
  }
  stack.use(startQueues(temporal, deps, await bundle, queues))
  return stack.move()
}

/** The pause between two searches for stalled or due work. */
const repairIntervalMs = 30_000

function startRepairs(services: Services, client: WorkflowClient): AsyncDisposable {
  const { config, log } = services
  let isErasing = false

  /** Takes minutes for a busy project, and no other repair waits for it. */
  async function eraseOn(): Promise<void> {
    isErasing = true
    await finishErasures(services).catch((error: Error) => log.warn({ err: error }, 'erased projects wait'))
    isErasing = false
  }

  return startReconciler(services, client, {
    intervalMs: repairIntervalMs,
    stalledAfterMs: 30_000,
    dueWithinMs: repairIntervalMs + 30_000,
    checkIntervalMs: config.dns.checkIntervalMs,
    retryPauseMs: config.acme.retryPauseMs,
    beginDue: {
      'certificate orders': (now) => startDueOrders(services, now),
      'abandoned uploads': (now) => removeAbandonedUploads(services, now),
      'erased projects': async () => {
        if (!isErasing) void eraseOn()
      },
    },
  })
}
