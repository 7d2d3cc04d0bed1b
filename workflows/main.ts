import { openBuildLogs } from '../infra/build-logs/open.ts'
import { openCas } from '../infra/cas/open.ts'
import { loadConfig, required } from '../infra/config.ts'
import { openDatabase } from '../infra/db/database.ts'
import { openDomainLookUp } from '../infra/domains/look-up.ts'
import { createLogger } from '../infra/log.ts'
import { openMailer } from '../infra/mail/mailer.ts'
import { runMain } from '../infra/process.ts'
import { installRuntime } from '../infra/temporal/runtime.ts'
import { openWorkflowClient, startRelay } from './client.ts'
import { startReconciler } from './reconciler.ts'
import { startSchedules } from './schedules.ts'
import { bundleWorkflows, startControlWorker } from './worker.ts'

await runMain(async () => {
  const config = loadConfig()
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
  const buildsPerProject = config.build.perProject
  const buildLogs = openBuildLogs(config.storage.url)
  const lookUpDomain = openDomainLookUp(config)
  const mailer = config.mail.smtpUrl === undefined ? undefined : stack.use(openMailer(config.mail.smtpUrl))
  const deps = { config, db, cas, buildLogs, plans: config.plans, buildsPerProject, lookUpDomain, mailer, relay, log, clock }
  stack.use(startControlWorker(temporal, deps, await bundleWorkflows()))
  const { checkIntervalMs } = config.dns
  const intervalMs = 60_000
  const looks = { intervalMs, stalledAfterMs: 30_000, dueWithinMs: intervalMs + 30_000, checkIntervalMs, buildsPerProject }
  stack.use(startReconciler(db, client, log, looks))
  stack.use(startSchedules(temporal, log))
  return stack.move()
})
