import { openBuildLogs } from '../infra/build-logs/open.ts'
import { openCas } from '../infra/cas/open.ts'
import { loadConfig, required } from '../infra/config.ts'
import { createLogger } from '../infra/log.ts'
import { runMain } from '../infra/process.ts'
import { installRuntime } from '../infra/temporal/runtime.ts'
import { openRunner } from './runner.ts'
import { createVariablesReader } from './variables.ts'

await runMain('runner', async () => {
  const config = loadConfig()
  const log = createLogger('runner', config.logLevel)
  const { address, namespace } = config.temporal
  const token = required(config.runnerToken, 'PLINTH_RUNNER_TOKEN')
  installRuntime(log)
  return await openRunner({
    config,
    cas: await openCas(config.storage.url),
    buildLogs: openBuildLogs(config.storage.url),
    readVariables: createVariablesReader(config, { url: config.apiUrl, token }),
    temporal: { address: required(address, 'PLINTH_TEMPORAL_ADDRESS'), namespace },
    shutdownGraceMs: 5000,
    log,
  })
})
