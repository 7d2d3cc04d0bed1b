import { waitingFor } from '../../core/deploy-waits.ts'
import { failBuild, findFailure, finishBuild, finishStored } from '../../services/builds/finish.ts'
import { findBuildInput } from '../../services/builds/input.ts'
import { requestPermit } from '../../services/builds/permits.ts'
import { publishDeploy } from '../../services/deploys/activate.ts'
import * as runs from '../../services/deploys/runs.ts'
import type { Services } from '../../services/services.ts'
import type { DeployActivities } from '../contract/deploys.ts'

/** The steps of a deploy in PostgreSQL. Each is a guarded update, so repeating it is harmless. */
export function createDeployActivities(services: Services): DeployActivities {
  const { db, log, clock } = services
  return {
    async claimDeploy(run) {
      const claimed = await runs.claimDeploy(db, run, clock())
      if (!claimed) return undefined
      const { status, has_source, is_stored, ...work } = claimed
      const input = has_source ? await findBuildInput(services, run) : undefined
      log.info({ ...run, site_id: work.site_id }, 'deploy claimed')
      if (input) return { ...work, task: { kind: 'build', input } }
      if (!is_stored) return { ...work, task: { kind: 'fetch' } }
      if (status === 'building') {
        const outcome = await finishStored(services, run)
        return outcome && { ...work, task: { kind: 'none', outcome } }
      }
      return { ...work, task: { kind: 'none', outcome: work.activate ? await publishDeploy(services, run) : 'ready' } }
    },

    async requestPermit(run) {
      const permit = await requestPermit(services, run)
      return permit && (permit.has_permit ? { granted: true } : { granted: false, waits_for: `waits for ${waitingFor(permit)}` })
    },

    async markBuilding(run) {
      if (await runs.markBuilding(db, run, clock())) log.info({ ...run }, 'build started')
    },

    finishBuild: (run, result) => finishBuild(services, run, result),
    failBuild: (run, failure) => failBuild(services, run, failure),
    findFailure: (deploy) => findFailure(services, deploy),
    publishDeploy: (deploy) => publishDeploy(services, deploy),
  }
}
