import { applyRetention, type RetentionDeps } from '../../infra/artifacts/retention.ts'
import type { RetentionActivities } from '../contract.ts'

/** What follows an activation. A storage that does not answer is a retryable failure. */
export const createRetentionActivities = (deps: RetentionDeps): RetentionActivities => ({
  applyRetention: ({ site_id }) => applyRetention(deps, site_id),
})
