import { isUuid } from '../../core/uuid.ts'
import type { BuildLogs } from '../../infra/build-logs/build-logs.ts'
import type { Db } from '../../infra/db/database.ts'
import { listDeploysSince } from '../deploys/deploys.ts'

const batch = 500

/**
 * Removes the logs of deploys that were accepted before an instant, or that have no record any more. Returns how many; may
 * be repeated.
 */
export async function removeOldLogs(db: Db, logs: BuildLogs, before: Date): Promise<number> {
  let removed = 0
  let ids: string[] = []
  for await (const id of logs.list()) {
    if (!isUuid(id)) continue
    ids.push(id)
    if (ids.length < batch) continue
    removed += await removeBatch(ids)
    ids = []
  }
  return removed + (await removeBatch(ids))

  async function removeBatch(found: readonly string[]): Promise<number> {
    if (found.length === 0) return 0
    const kept = new Set(await listDeploysSince(db, found, before))
    const old = found.filter((id) => !kept.has(id))
    for (const id of old) await logs.remove(id)
    return old.length
  }
}
