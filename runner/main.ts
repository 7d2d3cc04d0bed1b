import { openBuildLogs } from '../infra/build-logs/open.ts'
import { openCas } from '../infra/cas/open.ts'
import { loadConfig, required } from '../infra/config.ts'
import { createLogger } from '../infra/log.ts'
import { runMain } from '../infra/process.ts'
import { installRuntime } from '../infra/temporal/runtime.ts'
import { openToolchain, toolchainOptions } from '../infra/toolchain.ts'
import { openKeptFolders } from './install/kept-folders.ts'
import { openReaders } from './readers.ts'
import { openSandbox } from './sandbox/sandbox.ts'
import { createSlots } from './sandbox/slots.ts'
import { startBuildWorker } from './worker.ts'

/** A build longer than this is cancelled at a stop, and repeated by the next runner. */
const shutdownGraceMs = 5000

await runMain('runner', async () => {
  const config = loadConfig()
  const log = createLogger('runner', config.logLevel)
  const temporal = { address: required(config.temporal.address, 'PLINTH_TEMPORAL_ADDRESS'), namespace: config.temporal.namespace }
  installRuntime(log)
  await using stack = new AsyncDisposableStack()
  const cas = await openCas(config.storage.url)
  const buildLogs = openBuildLogs(config.storage.url)
  const toolchain = openToolchain(toolchainOptions(config))
  // the isolation is tested with it
  await toolchain.get('node-20', { report: (line) => log.info(line) })
  const sandbox = stack.use(await openSandbox({ config, log }))
  const keptFolders = await openKeptFolders(config.build.dir)
  const slots = createSlots(config.build.slots, config.build.dir, process.getuid?.() === 0)
  const readers = stack.use(await openReaders())
  const deps = { cas, buildLogs, config, log, sandbox, slots, readers, toolchain, keptFolders }
  stack.use(startBuildWorker(temporal, deps, shutdownGraceMs))
  return stack.move()
})
