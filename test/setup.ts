import { promiseHooks } from 'node:v8'
import { IllegalStateError } from '@temporalio/common'
import { createLogger } from '../infra/log.ts'
import { installRuntime } from '../infra/temporal/runtime.ts'

// Workers run workflows on this thread: to start another for each world takes a sixth of a second of a processor. Processes that tests start
// have theirs.
process.env['TEMPORAL_DEBUG'] = '1'
// on this thread the SDK would follow every promise of the tests too, to tell on request where a workflow waits
promiseHooks.createHook = () => () => undefined

// the SDK's logger can be chosen only before its first use
try {
  installRuntime(createLogger('temporal', process.env['TEST_LOG_LEVEL'] ?? 'silent'))
} catch (error) {
  // the file before this one in the same process did not use it, or the SDK would have ended it
  if (!(error instanceof IllegalStateError)) throw error
}
