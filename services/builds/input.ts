import { trustOf } from '../../core/build-trust.ts'
import { planTitle } from '../../core/plans.ts'
import type { BuildInput } from '../../workflows/contract/builds.ts'
import type { Services } from '../services.ts'
import { findBuildFacts } from './facts.ts'

/** The input for a runner to build the deploy's source, with the current settings. Undefined when the deploy has no source. */
export async function findBuildInput({ db, config }: Services, deployId: string): Promise<BuildInput | undefined> {
  const found = await findBuildFacts(db, deployId)
  if (!found) return undefined
  const { plan, git, root_dir, project_id, site_id, source_sha256 } = found
  return {
    deploy_id: deployId,
    project_id,
    site_id,
    source_sha256,
    trust: trustOf(found),
    storage_bytes: config.plans[plan].storage_bytes,
    plan_title: planTitle(plan),
    ...(git
      ? { root_dir: git.root_dir ?? root_dir, settings: { ...git, root_dir_of: git.root_dir === null ? 'site' : 'connection' } }
      : { root_dir }),
  }
}
