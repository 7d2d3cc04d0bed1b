import type { ObjectBatch } from '../../infra/cas/cas.ts'
import { givePermits } from '../builds/permits.ts'
import type { DeployRun } from '../deploys/runs.ts'
import { withProject } from '../projects/projects.ts'
import { insertGitReport, queueReports } from '../reports/reports.ts'
import type { Services } from '../services.ts'
import { holdSweeper } from '../storage/unneeded-objects.ts'
import { type FetchedContent, type GitFetch, setFetchedSource, waitForRepository } from './deploys.ts'

/**
 * Gives a deploy its source, whose objects get their places; the deploy asks for a permit to build from now on, and the forge is told.
 * False when another run owns the deploy by now.
 */
export function keepFetchedSource(
  services: Services,
  run: DeployRun,
  { project_id, site_id }: Pick<GitFetch, 'project_id' | 'site_id'>,
  content: FetchedContent,
  objects: ObjectBatch,
): Promise<boolean> {
  return withProject(services, project_id, async (tx) => {
    await holdSweeper(tx)
    if (!(await setFetchedSource(tx, run, content))) return false
    await objects.publish()
    await insertGitReport(tx, { deploy_id: run.deploy_id, site_id })
    await queueReports(tx, site_id)
    await givePermits(tx, services, { project_id, now: services.clock(), asking: run.deploy_id })
    return true
  })
}

/** The deploy gives its permit back until its repository is tried again. False when the run does not own a deploy that waits for its source. */
export function postponeFetch(services: Services, run: DeployRun, project_id: string, pauseMs: number): Promise<boolean> {
  return withProject(services, project_id, async (tx) => {
    const now = services.clock()
    if (!(await waitForRepository(tx, run, new Date(now.getTime() + pauseMs)))) return false
    await givePermits(tx, services, { project_id, now })
    return true
  })
}
