import { promiseHooks } from 'node:v8'
import { type Context, type RunningScriptInNewContextOptions, Script } from 'node:vm'
import { IllegalStateError } from '@temporalio/common'
import { createLogger } from '../infra/log.ts'
import { installRuntime } from '../infra/temporal/runtime.ts'

// Workers run workflows on this thread: to start another for each world takes a sixth of a second of a processor. Processes that tests start
// have theirs.
process.env['TEMPORAL_DEBUG'] = '1'
// on this thread the SDK would follow every promise of the tests too, to tell on request where a workflow waits
promiseHooks.createHook = () => () => undefined
// and each call into a workflow would start a thread of its own to limit its time
type Run = (this: Script, context: Context, options?: RunningScriptInNewContextOptions) => unknown
const scripts: { runInContext: Run } = Script.prototype
const { runInContext } = scripts
const runWithoutLimit: Run = function (context, options) {
  return runInContext.call(this, context, { ...options, timeout: undefined })
}
// files of tests may share a process
if (runInContext.name !== runWithoutLimit.name) scripts.runInContext = runWithoutLimit

// the SDK's logger can be chosen only before its first use
try {
  installRuntime(createLogger('temporal', process.env['TEST_LOG_LEVEL'] ?? 'silent'))
} catch (error) {
  // the file before this one in the same process did not use it, or the SDK would have ended it
  if (!(error instanceof IllegalStateError)) throw error
}
