import { z } from 'zod'
import { maxRecommendations, recommendationCodes, severities } from '../../core/checks/recommendation.ts'
import { writtenBy } from './authors.ts'

const Recommendation = z
  .object({
    code: z.enum(recommendationCodes),
    severity: z.enum(severities),
    path: writtenBy('sources', z.string().describe('The file concerned, or the missing file.')),
    message: writtenBy('sources', z.string().describe('What is wrong.')),
    hint: writtenBy('sources', z.string().describe('What to do.')),
  })
  .meta({ id: 'Recommendation' })

/** Recommendations for published files; they never fail a deploy. */
export const recommendations = z.array(Recommendation).max(maxRecommendations).optional()
