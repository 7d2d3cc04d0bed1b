import { deployStart, type StartedDeploy } from '../../workflows/contract/deploys.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { startWorkflow } from '../workflow-messages.ts'
import { retryDeploy } from './runs.ts'

/** Starts the next attempt of a stalled deploy, which has no permit and requests one again. False when the deploy has moved on. */
export function restartDeploy(services: Services, deploy: StartedDeploy): Promise<boolean> {
  return withProject(services, deploy.project_id, async (tx) => {
    if (!(await retryDeploy(tx, deploy.deploy_id, deploy.attempt))) return false
    await startWorkflow(tx, deployStart({ ...deploy, attempt: deploy.attempt + 1 }))
    return true
  })
}
