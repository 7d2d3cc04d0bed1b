import { applyRetention } from '../../services/deploys/retention.ts'
import type { Services } from '../../services/services.ts'
import type { RetentionActivities } from '../contract/deploys.ts'

/** The retention after an activation. When the storage does not answer, the failure is retryable. */
export const createRetentionActivities = (services: Services): RetentionActivities => ({
  applyRetention: ({ site_id }) => applyRetention(services, site_id),
})
