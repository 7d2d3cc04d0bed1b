import { heartbeat } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import { AppError } from '../../core/errors.ts'
import { buildLogPeriodMs, sweepGraceMs } from '../../core/limits.ts'
import { removeOldLogs } from '../../services/builds/expired-logs.ts'
import { applyRetentionEverywhere } from '../../services/deploys/retention.ts'
import { deleteExpired } from '../../services/removal/expired.ts'
import type { Services } from '../../services/services.ts'
import { forgetExpiredAssetsEverywhere } from '../../services/storage/retained-assets.ts'
import { dropUnusedBlobs, sweepObjects } from '../../services/storage/sweep.ts'
import type { StorageActivities } from '../contract/storage.ts'

const defaultMaxShare = 0.2

/** The cleaning of the storage. */
export function createStorageActivities(services: Services): StorageActivities {
  const { db, buildLogs, log, clock } = services
  const options = () => ({ before: new Date(clock().getTime() - sweepGraceMs), progress: heartbeat })
  return {
    async purgeExpired() {
      const rows = await deleteExpired(db, clock())
      if (rows > 0) log.info({ rows }, 'expired rows deleted')
      await forgetExpiredAssetsEverywhere(services)
      return `purged ${count(await applyRetentionEverywhere(services))} deploys`
    },

    async removeOldLogs() {
      return `removed ${count(await removeOldLogs(db, buildLogs, new Date(clock().getTime() - buildLogPeriodMs)))} build logs`
    },

    async dropUnusedBlobs() {
      const dropped = await dropUnusedBlobs(services, options(), clock())
      if (dropped > 0) log.info({ dropped }, 'unused blobs dropped')
      return `dropped ${count(dropped)} unused blobs`
    },

    async sweepObjects({ max_share = defaultMaxShare }) {
      try {
        const { looked_at, removed, bytes } = await sweepObjects(services, { ...options(), maxShare: max_share })
        if (removed > 0) log.info({ looked_at, removed, bytes }, 'storage swept')
        return `looked at ${count(looked_at)} objects, removed ${count(removed)} (${megabytes(bytes)})`
      } catch (error) {
        if (!(error instanceof AppError)) throw error
        log.error({ err: error }, 'storage sweep refused')
        throw ApplicationFailure.create({ message: error.message, type: error.kind, nonRetryable: true })
      }
    },
  }
}

const count = (n: number) => n.toLocaleString('en')
const megabytes = (bytes: number) => `${(bytes / 1_048_576).toLocaleString('en', { maximumFractionDigits: 1 })} MB`
