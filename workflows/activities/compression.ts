import { Context, cancellationSignal } from '@temporalio/activity'
import { openCompressor } from '../../infra/compression/compressor.ts'
import { compressDueDeploy } from '../../services/deploys/compress.ts'
import type { Services } from '../../services/services.ts'
import type { CompressionActivities } from '../contract/compression.ts'

/** After this time the step ends with the files that it has begun, so that the next project has its turn. */
const budgetMs = 10_000
const heartbeatMs = 5000

/** The compression of published files in the background. */
export function createCompressionActivities(services: Services): CompressionActivities {
  return {
    async compressBatch({ project_id }) {
      const context = Context.current()
      const endsAt = performance.now() + budgetMs
      const alive = setInterval(() => context.heartbeat(), heartbeatMs)
      try {
        await using compressor = openCompressor(cancellationSignal())
        return await compressDueDeploy(services, project_id, { compressor, isOver: () => performance.now() > endsAt })
      } finally {
        clearInterval(alive)
      }
    },
  }
}
