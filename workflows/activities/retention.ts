import { applyRetention } from '../../services/deploys/retention.ts'
import type { Services } from '../../services/services.ts'
import type { RetentionActivities } from '../contract/deploys.ts'

/** What follows an activation. A storage that does not answer is a retryable failure. */
export const createRetentionActivities = (services: Services): RetentionActivities => ({
  applyRetention: ({ site_id }) => applyRetention(services, site_id),
})
