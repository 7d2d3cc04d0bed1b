import { openCas } from '../infra/cas/open.ts'
import { loadConfig, required } from '../infra/config.ts'
import { createLogger } from '../infra/log.ts'
import { runMain } from '../infra/process.ts'
import { installRuntime } from '../infra/temporal/runtime.ts'
import { openSandbox } from './sandbox.ts'
import { createSlots } from './slots.ts'
import { startBuildWorker } from './worker.ts'

/** A build longer than this is cancelled at a stop, and repeated by the next runner. */
const shutdownGraceMs = 5000

await runMain(async () => {
  const config = loadConfig()
  const log = createLogger('runner', config.logLevel)
  const temporal = { address: required(config.temporal.address, 'PLINTH_TEMPORAL_ADDRESS'), namespace: config.temporal.namespace }
  installRuntime(log)
  await using stack = new AsyncDisposableStack()
  const cas = await openCas(config.storage.url)
  const sandbox = stack.use(await openSandbox({ config, log }))
  const slots = createSlots(config.build.slots, config.build.dir, process.getuid?.() === 0)
  stack.use(startBuildWorker(temporal, { cas, config, log, sandbox, slots }, shutdownGraceMs))
  return stack.move()
})
