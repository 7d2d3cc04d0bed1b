import { activityInfo, heartbeat } from '@temporalio/activity'
import { forgetRepairsBefore, listPrefixesToVerify } from '../../services/storage/health.ts'
import { type ScrubProgress, type ScrubServices, verifyPrefix } from '../../services/storage/scrub.ts'
import type { ScrubActivities } from '../contract/storage.ts'

/** How long repaired objects stay listed for operators. */
const repairPeriodMs = 30 * 24 * 3_600_000

/** The verification of the storage: comparing objects with their hashes. */
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
