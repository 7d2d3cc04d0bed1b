import { openCompressor } from '../../infra/compression/compressor.ts'
import { withHeartbeat } from '../../infra/temporal/heartbeat.ts'
import { compressDueDeploy } from '../../services/deploys/compress.ts'
import type { Services } from '../../services/services.ts'
import type { CompressionActivities } from '../contract/compression.ts'

/** After this time the step ends with the files that it has begun, so that the next project has its turn. */
const budgetMs = 10_000

/** The compression of published files in the background. */
export function createCompressionActivities(services: Services): CompressionActivities {
  return {
    compressBatch: ({ project_id }) =>
      withHeartbeat(async (signal) => {
        const endsAt = performance.now() + budgetMs
        await using compressor = openCompressor(signal)
        return await compressDueDeploy(services, project_id, { compressor, isOver: () => performance.now() > endsAt })
      }),
  }
}
