import { readManifest } from '../../infra/cas/manifests.ts'
import type { SiteChecks } from '../../services/checks/find-recommendations.ts'
import { findUncheckedDeploy, setRecommendations } from '../../services/deploys/deploys.ts'
import type { Services } from '../../services/services.ts'
import type { CheckActivities } from '../contract/deploys.ts'

const budgetMs = 20_000

export interface CheckActivityDeps extends Services {
  readonly siteChecks: SiteChecks
}

/** Throws on a fault, so that it is retried; when it persists, the workflow continues without recommendations. */
export function createCheckActivities({ db, cas, siteChecks, log }: CheckActivityDeps): CheckActivities {
  return {
    async checkSite({ deploy_id }) {
      const deploy = await findUncheckedDeploy(db, deploy_id)
      if (!deploy) return 0
      const { files } = await readManifest(cas, deploy.manifest_sha256)
      const { recommendations, complete } = await siteChecks.findRecommendations(files, { payer: deploy.project_id, budgetMs })
      // a retry would have the same budget, which is too small
      await setRecommendations(db, deploy_id, recommendations)
      log.info({ deploy_id, recommendations: recommendations.length, complete }, 'deploy checked')
      return recommendations.length
    },
  }
}
