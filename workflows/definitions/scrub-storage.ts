import { proxyActivities, setCurrentDetails, upsertMemo } from '@temporalio/workflow'
import { counted, sizeText } from '../../core/amounts.ts'
import type { ScrubActivities, ScrubInput, ScrubReport } from '../contract/storage.ts'

const { choosePrefixes } = proxyActivities<ScrubActivities>({
  summary: 'find the parts of the storage that were not read for the longest time',
  startToCloseTimeout: '1m',
  retry: { initialInterval: '5s', maximumInterval: '1m', maximumAttempts: 5 },
})
const { verifyObjects } = proxyActivities<ScrubActivities>({
  startToCloseTimeout: '24h',
  heartbeatTimeout: '1m',
  retry: { initialInterval: '5s', maximumInterval: '5m', maximumAttempts: 10 },
})

/** Two of 256 parts an hour, so that each object is verified about every five days. */
const prefixesPerRun = 2

/** Compares a part of the storage with its hashes, repairs damaged objects where it can, and quarantines the others. */
export async function scrubStorage({ prefixes: count = prefixesPerRun }: ScrubInput = {}): Promise<string> {
  const prefixes = await choosePrefixes({ count })
  let total: ScrubReport = { objects: 0, bytes: 0, damaged: 0, repaired: 0 }
  for (const [i, prefix] of prefixes.entries()) {
    setCurrentDetails(`${textOf(total)}\n\n⏳ reads the objects ${prefix}…, part ${i + 1} of ${prefixes.length}`)
    const summary = `read the objects ${prefix}… and compare them with their hashes`
    const found = await verifyObjects.executeWithOptions({ summary }, [{ prefix }])
    total = {
      objects: total.objects + found.objects,
      bytes: total.bytes + found.bytes,
      damaged: total.damaged + found.damaged,
      repaired: total.repaired + found.repaired,
    }
  }
  const outcome = textOf(total)
  setCurrentDetails(outcome)
  upsertMemo({ outcome })
  return outcome
}

function textOf({ objects, bytes, damaged, repaired }: ScrubReport): string {
  const found = [
    ...(repaired > 0 ? [`${repaired} damaged and repaired`] : []),
    ...(damaged > 0 ? [`⚠️ ${damaged} damaged: see GET /operator/v1/storage`] : []),
  ]
  return `✅ verified ${counted(objects, 'object')} (${sizeText(bytes)})${found.map((text) => `, ${text}`).join('')}`
}
