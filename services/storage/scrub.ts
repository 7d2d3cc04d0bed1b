import type { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { type Encoding, encodings } from '../../core/encodings.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import { decoders, hashOfInflated, hashOfStream } from '../../infra/cas/hashes.ts'
import { encodeBytes } from '../../infra/compression/encode-bytes.ts'
import type { Services } from '../services.ts'
import { transact } from '../transact.ts'
import { forgetCompression } from './compressed-blobs.ts'
import { listDamagedObjects, markDamaged, markRepaired, saveVerifiedPrefix } from './health.ts'
import { lockSweep } from './unneeded-objects.ts'

export interface ScrubServices extends Services {
  /** Storages with copies of the same objects, from which damaged ones are repaired. */
  readonly copies: readonly Pick<Cas, 'open'>[]
}

/** How far a prefix is verified; a retry continues from there. */
export interface ScrubProgress {
  /** The last verified hash; hashes come in order. */
  readonly after: string
  readonly objects: number
  readonly bytes: number
  /** Objects that were damaged and could not be repaired. */
  readonly damaged: number
  /** Objects that were damaged and are intact again. */
  readonly repaired: number
}

/** Low enough that visitors do not notice; about 9 TiB a week. */
const bytesPerSecond = 16 * 1024 * 1024
const maxDamaged = 10_000

const nothing: ScrubProgress = { after: '', objects: 0, bytes: 0, damaged: 0, repaired: 0 }

/**
 * Reads all objects of a prefix with their variants, at a bounded rate, and compares them with their hashes. A damaged variant is made
 * again. A damaged object is repaired from a variant or from a copy; otherwise it is quarantined, and counts as missing until it is stored
 * again, or a later run finds it in a copy.
 * @param from the progress of an earlier try
 * @param progress called after each object, and now and then while a large one is read; an exception ends it
 */
export async function verifyPrefix(
  services: ScrubServices,
  prefix: string,
  progress: (state: ScrubProgress) => void,
  from: ScrubProgress = nothing,
): Promise<ScrubProgress> {
  const { db, cas, clock } = services
  const hashes: string[] = []
  for await (const batch of cas.list(prefix)) hashes.push(...batch)
  const marked = new Set((await listDamagedObjects(db, maxDamaged)).filter((row) => !row.repaired_at).map((row) => row.sha256))
  const missing = [...marked].filter((sha256) => sha256.startsWith(prefix) && !hashes.includes(sha256))
  let state = from
  const pace = createPace(() => progress(state))
  for (const sha256 of [...hashes, ...missing].sort()) {
    if (sha256 <= from.after) continue
    const { verdict, size } = await verifyObject(services, sha256, pace)
    if (verdict === 'intact' && marked.has(sha256)) await markRepaired(db, [sha256], clock())
    state = {
      after: sha256,
      objects: state.objects + (verdict === 'gone' ? 0 : 1),
      bytes: state.bytes + size,
      damaged: state.damaged + (verdict === 'damaged' ? 1 : 0),
      repaired: state.repaired + (verdict === 'repaired' ? 1 : 0),
    }
    progress(state)
  }
  const { objects, bytes } = state
  await saveVerifiedPrefix(db, { prefix, verified_at: clock(), objects, bytes })
  return state
}

type Verdict = 'intact' | 'repaired' | 'damaged' | 'gone'
type Pace = (bytes: number) => Promise<void>

async function verifyObject(services: ScrubServices, sha256: string, pace: Pace): Promise<{ verdict: Verdict; size: number }> {
  const { cas, log } = services
  const object = await cas.open(sha256)
  // repairs a quarantined object when a copy has it by now
  if (!object) return { verdict: (await repair(services, sha256, undefined)) ? 'repaired' : 'gone', size: 0 }
  const { size } = object
  const isIntact = (await hashOfStream(object.stream(), pace)) === sha256
  const variants = await verifyVariants(cas, sha256, pace)
  if (isIntact) {
    for (const encoding of variants.damaged) {
      await makeVariantAgain(cas, sha256, encoding)
      log.warn({ sha256, encoding }, 'damaged variant made again')
    }
    return { verdict: 'intact', size }
  }
  const repaired = await repair(services, sha256, variants.intact[0])
  if (repaired) log.warn({ sha256, from: repaired }, 'damaged object repaired')
  else {
    await quarantine(services, sha256)
    log.error({ sha256 }, 'damaged object moved aside')
  }
  return { verdict: repaired ? 'repaired' : 'damaged', size }
}

async function verifyVariants(cas: Cas, sha256: string, pace: Pace) {
  const found: Record<'intact' | 'damaged', Encoding[]> = { intact: [], damaged: [] }
  for (const encoding of encodings) {
    const variant = await cas.open(sha256, encoding)
    if (!variant) continue
    const decoded = await hashOfInflated(variant.stream(), encoding)
    if (decoded !== undefined) await pace(variant.size)
    found[decoded === sha256 ? 'intact' : 'damaged'].push(encoding)
  }
  return found
}

async function makeVariantAgain(cas: Cas, sha256: string, encoding: Encoding): Promise<void> {
  await cas.removeVariant(sha256, encoding)
  if (encoding === 'gzip') return await cas.encode(sha256, encoding)
  const object = await cas.open(sha256)
  if (object) await cas.putVariant(sha256, encoding, await encodeBytes[encoding](await object.bytes()))
}

/** Stores the object again from a variant or a copy; returns the source. */
async function repair(services: ScrubServices, sha256: string, fromVariant: Encoding | undefined): Promise<string | undefined> {
  const { cas, clock, copies, log } = services
  const sources: { readonly name: string; readonly open: () => Promise<Readable | undefined> }[] = copies.map((copy, i) => ({
    name: `copy ${i + 1}`,
    open: async () => (await copy.open(sha256))?.stream(),
  }))
  if (fromVariant) {
    const open = async () => (await cas.open(sha256, fromVariant))?.stream().pipe(decoders[fromVariant]())
    sources.unshift({ name: `${fromVariant} variant`, open })
  }
  for (const { name, open } of sources) {
    try {
      const bytes = await open()
      if (!bytes) continue
      await cas.put(bytes, { sha256, compress: () => fromVariant !== undefined })
      await transact(services, async (tx) => {
        await markDamaged(tx, sha256, clock())
        await markRepaired(tx, [sha256], clock())
      })
      return name
    } catch (error) {
      log.warn({ err: error, sha256, from: name }, 'object not repaired')
    }
  }
  return undefined
}

/** Marks the row first, so that nothing relies on the object any more, then quarantines the object. An object that was stored again in between stays. */
async function quarantine(services: ScrubServices, sha256: string): Promise<void> {
  const { db, cas, clock } = services
  await transact(services, async (tx) => {
    await lockSweep(tx)
    await markDamaged(tx, sha256, clock())
    // its variants go as well
    await forgetCompression(tx, sha256)
  })
  if (!(await cas.quarantine(sha256))) await markRepaired(db, [sha256], clock())
}

/** Limits the rate of the reader. */
function createPace(alive: () => void): Pace {
  const startedAt = performance.now()
  let read = 0
  return async (bytes) => {
    read += bytes
    alive()
    const aheadMs = (read / bytesPerSecond) * 1000 - (performance.now() - startedAt)
    if (aheadMs > 5) await pause(aheadMs)
  }
}
