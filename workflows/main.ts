import { loadConfig } from '../infra/config.ts'
import { createLogger } from '../infra/log.ts'
import { runMain } from '../infra/process.ts'
import { installRuntime } from '../infra/temporal/runtime.ts'
import { openWorker } from './open.ts'
import { bundleWorkflows } from './worker.ts'

await runMain('worker', async () => {
  const config = loadConfig()
  const bundle = bundleWorkflows(config)
  // it is awaited later
  bundle.catch(() => undefined)
  const log = createLogger('worker', config.logLevel)
  installRuntime(log)
  return await openWorker({ config, bundle, log })
})
