import { type ArtifactDeps, purgeDeploy } from '../deploys/purge.ts'
import { listDeploysToPurge } from './sites.ts'

const deploysAtOnce = 100

/**
 * Deletes the files of every deploy of a site whose purge has begun, each in a transaction of its own. Answers how many; what an earlier
 * try has done is not done again.
 * @param progress called after each, with a line about it; an exception ends it
 * @throws AppError `unavailable` when the storage does not answer
 */
export async function purgeDeploys(deps: ArtifactDeps, siteId: string, progress: (line: string) => void): Promise<number> {
  let purged = 0
  for (let afterId: string | undefined; ; ) {
    const deploys = await listDeploysToPurge(deps.db, siteId, { limit: deploysAtOnce, afterId })
    for (const deploy of deploys) {
      if (await purgeDeploy(deps, deploy)) purged += 1
      progress(`purged ${purged} deploys`)
    }
    if (deploys.length < deploysAtOnce) return purged
    afterId = deploys.at(-1)?.id
  }
}
