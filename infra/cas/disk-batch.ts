import { createHash } from 'node:crypto'
import { mkdir, open, rename, rm, stat, utimes } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Readable } from 'node:stream'
import { AppError, unavailable } from '../../core/errors.ts'
import { sha256Hex } from '../crypto/sha256.ts'
import { flushFolder } from '../replace-file.ts'
import { type BatchFolder, openBatchFolder } from './batch-folder.ts'
import { type ObjectBatch, type OpenedObject, otherBytes, type PutOptions, type StoredObject } from './cas.ts'
import { type Layout, storageTime, suffix } from './disk-layout.ts'
import { absent, inParallel, openFile, outOfSpace } from './files.ts'
import { savesEnough, writeGzip } from './gzip.ts'

/** The name of an older file was flushed, by its writer or by the kernel. */
const freshMs = 60_000
const headBytes = 4096
const comparedBytes = 256 * 1024
const renamesAtOnce = 8

interface Entry {
  readonly size: number
  /** Undefined when the object is stored already. */
  readonly temporary: string | undefined
}

interface Batch {
  readonly layout: Layout
  readonly folder: BatchFolder
  readonly entries: Map<string, Promise<Entry>>
  /** Files of gzip variants; undefined when an object gets none. */
  readonly variants: Map<string, Promise<string | undefined>>
  readonly placed: Set<string>
  /** The time by the clock of the files, which is asked once. */
  readonly now: () => Promise<Date>
}

type Taken = StoredObject & { readonly head: Buffer }

/** A batch as a folder below `incoming/`, whose files are renamed into place. */
export function openDiskBatch(layout: Layout): ObjectBatch {
  const folder = openBatchFolder(layout.incoming)
  let time: Promise<Date> | undefined
  const now = () => (time ??= storageTime(layout))
  const batch: Batch = { layout, folder, entries: new Map(), variants: new Map(), placed: new Set(), now }
  const { entries, variants, placed } = batch
  return {
    async add(bytes, options = {}) {
      try {
        return await addObject(batch, bytes, options)
      } catch (error) {
        throw outOfSpace(error)
      }
    },

    async open(sha256): Promise<OpenedObject | undefined> {
      const temporary = (await entries.get(sha256))?.temporary
      return (temporary && (await openFile(temporary))) || (await openFile(layout.pathOf(sha256)))
    },

    async publish() {
      try {
        await publishAll(batch)
        return [...entries.keys()]
      } catch (error) {
        throw outOfSpace(error)
      }
    },

    written: () => [...placed],

    async [Symbol.asyncDispose]() {
      // no file of it is written any more: every `add` has ended, or its caller has abandoned it
      await Promise.allSettled([...entries.values(), ...variants.values()])
      await folder[Symbol.asyncDispose]()
    },
  }
}

async function addObject(batch: Batch, bytes: Readable | Buffer, options: PutOptions): Promise<StoredObject> {
  const taken = Buffer.isBuffer(bytes) ? await takeBuffer(batch, bytes, options) : await takeStream(batch, bytes, options)
  const { sha256, size, head } = taken
  const { variants } = batch
  if (options.compress?.(size, head)) {
    if (!variants.has(sha256)) variants.set(sha256, compress(batch, sha256))
    await variants.get(sha256)
  }
  return { sha256, size }
}

async function takeBuffer({ layout, folder, entries, now }: Batch, bytes: Buffer, options: PutOptions): Promise<Taken> {
  const { limitBytes = Number.POSITIVE_INFINITY, sha256: expected } = options
  if (bytes.length > limitBytes) throw tooLarge(limitBytes)
  const sha256 = sha256Hex(bytes)
  if (expected !== undefined && sha256 !== expected) throw otherBytes(expected, sha256)
  const store = async (): Promise<Entry> => {
    if (await isStored(layout.pathOf(sha256), bytes, now)) return { size: bytes.length, temporary: undefined }
    return { size: bytes.length, temporary: (await folder.write((file) => file.writeFile(bytes))).path }
  }
  if (!entries.has(sha256)) entries.set(sha256, store())
  await entries.get(sha256)
  return { sha256, size: bytes.length, head: bytes.subarray(0, headBytes) }
}

async function takeStream({ folder, entries }: Batch, bytes: Readable, options: PutOptions): Promise<Taken> {
  const { limitBytes = Number.POSITIVE_INFINITY, sha256: expected } = options
  const hash = createHash('sha256')
  let size = 0
  let head = Buffer.alloc(0)
  const { path, result: sha256 } = await folder.write(async (file) => {
    for await (const chunk of bytes as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > limitBytes) throw tooLarge(limitBytes)
      if (head.length < headBytes) head = Buffer.concat([head, chunk.subarray(0, headBytes - head.length)])
      hash.update(chunk)
      await file.writeFile(chunk)
    }
    const actual = hash.digest('hex')
    if (expected !== undefined && actual !== expected) throw otherBytes(expected, actual)
    return actual
  })
  if (entries.has(sha256)) await rm(path)
  else entries.set(sha256, Promise.resolve({ size, temporary: path }))
  return { sha256, size, head }
}

/** Writes the gzip variant; undefined when there is one already, or when it would save too little. */
async function compress({ layout, folder, entries }: Batch, sha256: string): Promise<string | undefined> {
  const stored = layout.pathOf(sha256)
  const { size, temporary } = (await entries.get(sha256)) ?? { size: 0, temporary: undefined }
  if (!temporary && (await absent(stat(stored + suffix.gzip)))) return undefined
  const source = await absent(open(temporary ?? stored))
  if (!source) return undefined
  const { path, result: compressedSize } = await folder.write(async (file) => await writeGzip(source, file))
  if (savesEnough(compressedSize, size)) return path
  await rm(path)
  return undefined
}

async function publishAll(batch: Batch): Promise<void> {
  const homes = new Set<string>()
  await inParallel(renamesAtOnce, batch.entries, async ([sha256, entering]) => {
    if (await publishObject(batch, sha256, await entering)) homes.add(dirname(batch.layout.pathOf(sha256)))
  })
  await inParallel(renamesAtOnce, homes, flushFolder)
}

/** Moves an object into its place; returns whether its folder must be flushed. */
async function publishObject({ layout, variants, placed, now }: Batch, sha256: string, { temporary }: Entry): Promise<boolean> {
  const path = layout.pathOf(sha256)
  const variant = await variants.get(sha256)
  if (temporary) {
    placed.add(sha256)
    await moveIntoPlace(layout, temporary, path)
  }
  const stats = temporary ? undefined : await absent(stat(path))
  if (!temporary && !stats) throw gone()
  if (variant) await moveIntoPlace(layout, variant, path + suffix.gzip)
  // the writer of a fresh file may not have flushed its name yet
  return Boolean(temporary || variant || (stats && (await now()).getTime() - stats.mtimeMs < freshMs))
}

async function moveIntoPlace({ objects, madeFolders }: Layout, temporary: string, path: string): Promise<void> {
  const home = dirname(path)
  if (!madeFolders.has(home)) {
    if (await mkdir(home, { recursive: true })) await flushFolder(objects)
    madeFolders.add(home)
  }
  if ((await absent(rename(temporary, path).then(() => true))) === undefined) throw gone()
}

const tooLarge = (limitBytes: number) => new AppError('too_large', `the content is larger than ${limitBytes} bytes`)
const gone = () => unavailable('parts of the upload were removed in the meantime, because it took too long; send it again')

/** Whether an object has exactly these bytes. If so, it is protected from the sweeper, as if it were stored again. */
async function isStored(path: string, bytes: Buffer, time: () => Promise<Date>): Promise<boolean> {
  const file = await absent(open(path))
  if (!file) return false
  let age: number
  try {
    const stats = await file.stat()
    if (stats.size !== bytes.length) return false
    age = (await time()).getTime() - stats.mtimeMs
    const piece = Buffer.allocUnsafe(Math.min(comparedBytes, bytes.length))
    for (let at = 0; at < bytes.length; ) {
      const { bytesRead } = await file.read(piece, 0, piece.length, at)
      if (bytesRead === 0 || !piece.subarray(0, bytesRead).equals(bytes.subarray(at, at + bytesRead))) return false
      at += bytesRead
    }
  } finally {
    await file.close()
  }
  const now = await time()
  return age <= freshMs || ((await absent(utimes(path, now, now).then(() => true))) ?? false)
}
