import type { ObjectBatch } from '../../infra/cas/cas.ts'
import { grantFreePermits } from '../builds/permits.ts'
import type { DeployRun } from '../deploys/runs.ts'
import { withProject } from '../projects/projects.ts'
import { insertGitReport, queueReports } from '../reports/reports.ts'
import type { Services } from '../services.ts'
import { keepObjects, publishObjects } from '../storage/stored-objects.ts'
import type { Tx } from '../transact.ts'
import { type FetchedContent, type GitFetch, setFetchedSource, waitForRepository } from './deploys.ts'

/**
 * Publishes the objects of the source of a deploy and stores it; the deploy then requests a permit to build, and the forge gets a report.
 * False when another run owns the deploy by now.
 * @throws Error when the sweeper has removed them in between; the fetch is tried again
 */
export async function keepFetchedSource(
  services: Services,
  run: DeployRun,
  { project_id, site_id }: Pick<GitFetch, 'project_id' | 'site_id'>,
  content: FetchedContent,
  objects: ObjectBatch,
): Promise<boolean> {
  const seen = await publishObjects(services, objects)
  const keep = async (tx: Tx) => {
    if (!(await keepObjects(tx, services, [...seen.keys()]))) throw new Error('the source was removed from the storage')
    if (!(await setFetchedSource(tx, run, content))) return false
    await insertGitReport(tx, { deploy_id: run.deploy_id, site_id })
    await queueReports(tx, site_id)
    await grantFreePermits(tx, services, { project_id, now: services.clock(), asking: run.deploy_id })
    return true
  }
  return await withProject(services, project_id, keep, seen)
}

/** Returns the deploy's permit until the fetch is retried. False when the run does not own a deploy that waits for its source. */
export function postponeFetch(services: Services, run: DeployRun, project_id: string, pauseMs: number): Promise<boolean> {
  return withProject(services, project_id, async (tx) => {
    const now = services.clock()
    if (!(await waitForRepository(tx, run, new Date(now.getTime() + pauseMs)))) return false
    await grantFreePermits(tx, services, { project_id, now })
    return true
  })
}
