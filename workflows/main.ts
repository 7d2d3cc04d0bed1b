import { rm } from 'node:fs/promises'
import { openBuildLogs } from '../infra/build-logs/open.ts'
import { openCas, openCopies } from '../infra/cas/open.ts'
import { loadConfig, required } from '../infra/config.ts'
import { createPreviewTokens } from '../infra/crypto/preview-tokens.ts'
import { openKeyring } from '../infra/crypto/seal.ts'
import { openDatabase } from '../infra/db/database.ts'
import { openAuthority } from '../infra/dns/authority.ts'
import { cachedChallenges } from '../infra/dns/challenge-records.ts'
import { parseServerAddress } from '../infra/dns/servers.ts'
import { createLogger } from '../infra/log.ts'
import { openMailer } from '../infra/mail/mailer.ts'
import { runMain } from '../infra/process.ts'
import { installRuntime } from '../infra/temporal/runtime.ts'
import { listDnsChallenges } from '../services/certificates/dns-challenges.ts'
import { retryPlatformOrders, startDueOrders } from '../services/certificates/due-orders.ts'
import { openFactsReader } from '../services/checks/facts-reader.ts'
import { createSiteChecks } from '../services/checks/find-recommendations.ts'
import { openDomainLookUp } from '../services/domains/look-up.ts'
import type { Services } from '../services/services.ts'
import { removeAbandonedUploads } from '../services/storage/sweep.ts'
import { fetchesDir } from './activities/fetch-repository.ts'
import { openWorkflowClient, startRelay } from './client.ts'
import { startReconciler } from './reconciler.ts'
import { startSchedules } from './schedules.ts'
import { bundleWorkflows, startControlWorker, startFetchWorker } from './worker.ts'

await runMain('worker', async () => {
  const config = loadConfig()
  const bundle = bundleWorkflows()
  // awaited below
  bundle.catch(() => undefined)
  const log = createLogger('worker', config.logLevel)
  const temporal = { address: required(config.temporal.address, 'PLINTH_TEMPORAL_ADDRESS'), namespace: config.temporal.namespace }
  const databaseUrl = required(config.database.url, 'PLINTH_DATABASE_URL')
  installRuntime(log)
  await using stack = new AsyncDisposableStack()
  const { db } = stack.use(openDatabase(databaseUrl))
  const cas = await openCas(config.storage.url)
  const clock = () => new Date()
  const client = stack.use(openWorkflowClient(temporal))
  const relay = stack.use(startRelay(db, client, log))
  const buildLogs = openBuildLogs(config.storage.url)
  const lookUpDomain = openDomainLookUp(config)
  const mailer = config.mail.smtpUrl === undefined ? undefined : stack.use(openMailer(config.mail.smtpUrl))
  const secretKey = required(config.secretKey, 'PLINTH_SECRET_KEY')
  const previewTokens = createPreviewTokens(secretKey)
  const keyring = openKeyring(secretKey)
  const siteChecks = createSiteChecks(cas, stack.use(await openFactsReader()))
  const services: Services = { config, db, cas, buildLogs, previewTokens, keyring, relay, log, clock }
  const copies = openCopies(config.storage.copies)
  const deps = { ...services, lookUpDomain, mailer, siteChecks, copies }
  // what a crash has left of repositories
  await rm(fetchesDir(config), { recursive: true, force: true })
  stack.use(startFetchWorker(temporal, services))
  stack.use(startControlWorker(temporal, deps, await bundle))
  const dns = config.acme.directory && config.acme.dns
  if (dns) {
    const listen = parseServerAddress(dns.listen, 'PLINTH_ACME_DNS_LISTEN')
    const findTxt = cachedChallenges(() => listDnsChallenges(db))
    stack.use(await openAuthority({ listen, zone: dns.zone, findTxt }))
  }
  retryPlatformOrders(services).catch((error: Error) => log.warn({ err: error }, 'certificate orders of the platform wait'))
  const { checkIntervalMs } = config.dns
  const intervalMs = 30_000
  const { retryPauseMs } = config.acme
  const pauses = { intervalMs, stalledAfterMs: 30_000, dueWithinMs: intervalMs + 30_000, checkIntervalMs, retryPauseMs }
  const beginDue = async (now: Date) => {
    await startDueOrders(services, now)
    await removeAbandonedUploads(services, now).catch((error: Error) => log.warn({ err: error }, 'abandoned uploads wait'))
  }
  stack.use(startReconciler(services, client, { ...pauses, beginDue }))
  stack.use(startSchedules(temporal, log))
  return stack.move()
})
