import { createLogger } from '../infra/log.ts'
import { installRuntime } from '../infra/temporal/runtime.ts'

// each test file runs in a process of its own, and the SDK's logger can be chosen only before its first use
installRuntime(createLogger('temporal', process.env['TEST_LOG_LEVEL'] ?? 'silent'))
