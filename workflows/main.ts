import { openBuildLogs } from '../infra/build-logs/open.ts'
import { openCas } from '../infra/cas/open.ts'
import { loadConfig, required } from '../infra/config.ts'
import { openDatabase } from '../infra/db/database.ts'
import { createLogger } from '../infra/log.ts'
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
  const deps = { db, cas, buildLogs, plans: config.plans, buildsPerProject, relay, log, clock }
  stack.use(startControlWorker(temporal, deps, await bundleWorkflows()))
  stack.use(startReconciler(db, client, log, { intervalMs: 60_000, stalledAfterMs: 30_000, buildsPerProject }))
  stack.use(startSchedules(temporal, log))
  return stack.move()
})
