import { activityInfo, heartbeat } from '@temporalio/activity'
import { forgetRepairsBefore, listPrefixesToVerify } from '../../services/storage/health.ts'
import { type ScrubProgress, type ScrubServices, verifyPrefix } from '../../services/storage/scrub.ts'
import type { ScrubActivities } from '../contract/storage.ts'

/** Operators see what was repaired for so long. */
const repairPeriodMs = 30 * 24 * 3_600_000

/** Reading the storage and comparing it with its hashes. */
export function createScrubActivities(services: ScrubServices): ScrubActivities {
  return {
    async choosePrefixes({ count }) {
      await forgetRepairsBefore(services.db, new Date(services.clock().getTime() - repairPeriodMs))
      return await listPrefixesToVerify(services.db, count)
    },

    async verifyObjects({ prefix }) {
      const from = activityInfo().heartbeatDetails as ScrubProgress | undefined
      const { after: _, ...report } = await verifyPrefix(services, prefix, heartbeat, from)
      return report
    },
  }
}
