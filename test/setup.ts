import { IllegalStateError } from '@temporalio/common'
import { createLogger } from '../infra/log.ts'
import { installRuntime } from '../infra/temporal/runtime.ts'

// the SDK's logger can be chosen only before its first use
try {
  installRuntime(createLogger('temporal', process.env['TEST_LOG_LEVEL'] ?? 'silent'))
} catch (error) {
  // the file before this one in the same process did not use it, or the SDK would have ended it
  if (!(error instanceof IllegalStateError)) throw error
}
