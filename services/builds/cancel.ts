import { conflict } from '../../core/errors.ts'
import { oneLine } from '../../core/inline-code.ts'
import { cancelSignal } from '../../workflows/contract/deploys.ts'
import { type DeployRow, findDeploy } from '../deploys/deploys.ts'
import { cancelUnended } from '../deploys/runs.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { signalWorkflows } from '../workflow-messages.ts'
import { settleFailure } from './endings.ts'

/**
 * Cancels a deploy for its owner: it has failed with the commit, and its workflow gets a signal to end what runs. The minutes are charged when the
 * runner has said how many they were.
 * @throws AppError `conflict` when it has ended
 */
export async function cancelDeploy(
  services: Services,
  { id, project_id }: Pick<DeployRow, 'id' | 'project_id'>,
  key: { readonly name: string },
): Promise<DeployRow> {
  const { clock, log } = services
  const error = `cancelled by key ${oneLine(key.name)}`
  return await withProject(services, project_id, async (tx) => {
    const before = await findDeploy(tx, project_id, id)
    const now = clock()
    const changed = await cancelUnended(tx, id, error, now)
    if (!before || !changed) {
      const status = before?.status ?? 'gone'
      throw conflict(`a deploy that is ${status} cannot be cancelled; only queued and building ones can`, 'wrong_status')
    }
    await settleFailure(tx, services, changed, { before, outcome: 'cancelled', now })
    await signalWorkflows(tx, [cancelSignal({ deploy_id: id, attempt: changed.attempt })])
    tx.afterCommit(() => log.info({ deploy_id: id, site_id: changed.site_id }, 'deploy cancelled'))
    return changed
  })
}
