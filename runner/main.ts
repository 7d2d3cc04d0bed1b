import { openBuildLogs } from '../infra/build-logs/open.ts'
import { openCas } from '../infra/cas/open.ts'
import { loadConfig, required } from '../infra/config.ts'
import { createLogger } from '../infra/log.ts'
import { runMain } from '../infra/process.ts'
import { installRuntime } from '../infra/temporal/runtime.ts'
import { openRunner } from './runner.ts'

await runMain('runner', async () => {
  const config = loadConfig()
  const log = createLogger('runner', config.logLevel)
  const { address, namespace } = config.temporal
  installRuntime(log)
  return await openRunner({
    config,
    cas: await openCas(config.storage.url),
    buildLogs: openBuildLogs(config.storage.url),
    temporal: { address: required(address, 'PLINTH_TEMPORAL_ADDRESS'), namespace },
    shutdownGraceMs: 5000,
    log,
  })
})
