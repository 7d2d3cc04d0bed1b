import { proxyActivities, setCurrentDetails, upsertMemo } from '@temporalio/workflow'
import type { StorageActivities, SweepInput } from '../contract/storage.ts'

const work = (summary: string) =>
  proxyActivities<StorageActivities>({
    summary,
    startToCloseTimeout: '2h',
    heartbeatTimeout: '1m',
    retry: { initialInterval: '5s', maximumInterval: '1m', maximumAttempts: 5 },
  })
const { purgeExpired } = work('purge deploys with old preview links')
const { removeOldLogs } = work('remove the logs of old builds')
const { dropUnusedBlobs } = work('give up blobs that no deploy contains')
const { sweepObjects } = work('remove objects that no row needs')

/** Cleans the storage. The result, for operators, lists what each step did. */
export async function sweepStorage(input: SweepInput = {}): Promise<string> {
  const steps = [
    { doing: 'purging deploys with old preview links', run: () => purgeExpired() },
    { doing: 'removing old build logs', run: () => removeOldLogs() },
    { doing: 'giving up unused blobs', run: () => dropUnusedBlobs() },
    { doing: 'removing unneeded objects', run: () => sweepObjects(input) },
  ]
  const done: string[] = []
  for (const { doing, run } of steps) {
    setCurrentDetails([...done.map((line) => `✅ ${line}`), `⏳ ${doing}`].join('\n\n'))
    done.push(await run())
  }
  setCurrentDetails(done.map((line) => `✅ ${line}`).join('\n\n'))
  upsertMemo({ outcome: done.at(-1) ?? '' })
  return done.join('; ')
}
