import { proxyLocalActivities, workflowInfo } from '@temporalio/workflow'
import type { DeployActivities, DeployInput } from '../../workflows/contract.ts'

const { claimDeploy, publishDeploy } = proxyLocalActivities<DeployActivities>({ startToCloseTimeout: '15s' })

/** The deploy workflow with its steps in another order: no recorded history may replay with it. */
export async function deploy(input: DeployInput): Promise<void> {
  const run = { ...input, run_id: workflowInfo().runId }
  await publishDeploy(run)
  await claimDeploy(run)
}
