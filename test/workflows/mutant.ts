import { proxyActivities, proxyLocalActivities, workflowInfo } from '@temporalio/workflow'
import type { DeployActivities, DeployInput, StorageActivities } from '../../workflows/contract.ts'

const { claimDeploy, publishDeploy } = proxyLocalActivities<DeployActivities>({ startToCloseTimeout: '15s' })

/** The deploy workflow with its steps in another order: no recorded history may replay with it. */
export async function deploy(input: DeployInput): Promise<void> {
  const run = { ...input, run_id: workflowInfo().runId }
  await publishDeploy(run)
  await claimDeploy(run)
}

const { sweepObjects, dropUnusedBlobs } = proxyActivities<StorageActivities>({ startToCloseTimeout: '15s' })

export async function sweepStorage(): Promise<void> {
  await sweepObjects({})
  await dropUnusedBlobs()
}
