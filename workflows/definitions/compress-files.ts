import { continueAsNew, proxyActivities, setCurrentDetails, upsertMemo, workflowInfo } from '@temporalio/workflow'
import { counted, sizeText } from '../../core/amounts.ts'
import type { CompressionActivities, CompressionInput } from '../contract/compression.ts'
import { queues, signals } from '../contract/messages.ts'
import { createSignalFlag } from './signal-flag.ts'

const { compressBatch } = proxyActivities<CompressionActivities>({
  taskQueue: queues.compress,
  // it ends by itself after some seconds, later on a machine that has more important work
  startToCloseTimeout: '1h',
  heartbeatTimeout: '30s',
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '5m' },
})

/**
 * Compresses the files of a project's live deploys, in steps of some seconds. There is one such workflow for a project, which waits in the queue
 * with one step at a time, so a project waits for at most one step of each other project, however much they publish.
 */
export async function compressFiles(input: CompressionInput): Promise<string> {
  const { project_id } = input
  const changed = createSignalFlag(signals.changed, 'A deploy went live: look again.')
  const options = { summary: 'make brotli and zstd variants', priority: { fairnessKey: project_id } }
  const total = { files: 0, bytes: 0, compressed_bytes: 0 }
  const text = () =>
    `${counted(total.files, 'file')} of ${sizeText(total.bytes)} compressed to ${sizeText(total.compressed_bytes)}`
  let more: boolean
  do {
    changed.lower()
    const batch = await compressBatch.executeWithOptions(options, [input])
    more = batch.more
    total.files += batch.files
    total.bytes += batch.bytes
    total.compressed_bytes += batch.compressed_bytes
    setCurrentDetails(`⏳ ${text()}`)
    if (more && workflowInfo().continueAsNewSuggested) await continueAsNew<typeof compressFiles>(input)
  } while (more || changed.isRaised())
  const outcome = `✅ ${text()}`
  setCurrentDetails(outcome)
  upsertMemo({ outcome })
  return outcome
}
