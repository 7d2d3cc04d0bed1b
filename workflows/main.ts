import { openCas } from '../infra/cas/open.ts'
import { loadConfig, required } from '../infra/config.ts'
import { openDatabase } from '../infra/db/database.ts'
import { createLogger } from '../infra/log.ts'
import { runMain } from '../infra/process.ts'
import { installRuntime } from '../infra/temporal/runtime.ts'
import { openWorkflowClient } from './client.ts'
import { startReconciler } from './reconciler.ts'
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
  stack.use(startControlWorker(temporal, { db, cas, plans: config.plans, log, clock }, await bundleWorkflows()))
  stack.use(startReconciler(db, client, log, { intervalMs: 60_000, stalledAfterMs: 30_000 }))
  return stack.move()
})
