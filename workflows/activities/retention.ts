import { applyRetention, type RetentionDeps } from '../../services/deploys/retention.ts'
import type { RetentionActivities } from '../contract.ts'
import { queueReports } from '../reports.ts'

/** What follows an activation. A storage that does not answer is a retryable failure. */
export const createRetentionActivities = (deps: Omit<RetentionDeps, 'queueReports'>): RetentionActivities => ({
  applyRetention: ({ site_id }) => applyRetention({ ...deps, queueReports }, site_id),
})
