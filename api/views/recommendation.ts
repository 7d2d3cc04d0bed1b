import { z } from 'zod'
import { maxRecommendations, recommendationCodes, severities } from '../../core/checks/recommendation.ts'

const Recommendation = z
  .object({
    code: z.enum(recommendationCodes),
    severity: z.enum(severities),
    path: z.string().describe('The file that it is about, or that is missing.'),
    message: z.string().describe('What is wrong.'),
    hint: z.string().describe('What to do.'),
  })
  .meta({ id: 'Recommendation' })

/** Advice on published files, never an error. */
export const recommendations = z.array(Recommendation).max(maxRecommendations).optional()
