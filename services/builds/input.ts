import { type BuildSettings, noSettings, overrideSettings } from '../../core/build-settings.ts'
import { trustOf } from '../../core/build-trust.ts'
import { planTitle } from '../../core/plans.ts'
import type { BuildInput } from '../../workflows/contract/builds.ts'
import type { DeployRun } from '../deploys/runs.ts'
import type { Services } from '../services.ts'
import { type BuildFacts, findBuildFacts } from './facts.ts'

/** The input for a runner to build the deploy's source, with the current settings. Undefined when the deploy has no source. */
export async function findBuildInput(
  { db, config }: Services,
  { deploy_id, attempt, run_id }: DeployRun,
): Promise<BuildInput | undefined> {
  const found = await findBuildFacts(db, deploy_id)
  if (!found) return undefined
  const { plan, project_id, site_id, source_sha256 } = found
  return {
    deploy_id,
    run: { attempt, run_id },
    project_id,
    site_id,
    source_sha256,
    trust: trustOf(found),
    storage_bytes: config.plans[plan].storage_bytes,
    plan_title: planTitle(plan),
    settings: settingsOf(found),
  }
}

/** The settings of the git connection win, member by member. */
function settingsOf({ site, git, source_kind }: BuildFacts): BuildSettings {
  const ofSite = overrideSettings(noSettings(source_kind === 'git'), 'the site', site)
  return git ? overrideSettings(ofSite, 'the git connection', git) : ofSite
}
