import { closeSync, constants, fchownSync, openSync, writeFileSync } from 'node:fs'
import { chown, copyFile, type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { maxArchiveEntries } from '../../core/limits.ts'
import type { LinkedCopy } from '../../core/link-targets.ts'
import { type ArchiveContent, readArchive } from '../../infra/archive/archive.ts'
import type { ArchiveFile } from '../../infra/archive/reading.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import type { Workspace } from '../sandbox/workspace.ts'

/** Fails on anything that is there already, a link included. */
const newFile = 'wx'
/** The most bytes of one file in memory. */
const maxHeldBytes = 256 * 1024

/** Copies the source archive out of the CAS, so that it can be read at random. Returns its path. */
export async function fetchArchive(cas: Cas, sha256: string, { root }: Workspace, signal: AbortSignal): Promise<string> {
  const path = join(root, 'archive')
  const object = await cas.open(sha256)
  if (!object) throw new Error(`the source archive ${sha256} is missing from the storage`)
  await using file = await open(path, 'wx', 0o600)
  await file.writeFile(object.stream(), { signal })
  return path
}

export interface UnpackOptions {
  /** The owner of the written files; undefined means the runner. */
  readonly uid: number | undefined
  readonly maxBytes: number
  readonly overMaxBytes: string
}

/**
 * Writes the files of an archive, and copies of files in the place of links to them, into an empty folder that no other process writes to. To
 * be called in a thread of its own.
 * @throws AppError as `readArchive`
 */
export async function unpack(archive: string, into: string, options: UnpackOptions): Promise<ArchiveContent> {
  const { uid } = options
  const made = new Set(['.'])

  async function makeFolder(folder: string): Promise<void> {
    if (made.has(folder)) return
    await makeFolder(dirname(folder))
    const path = join(into, folder)
    await mkdir(path, { mode: 0o755 })
    if (uid !== undefined) await chown(path, uid, uid)
    made.add(folder)
  }

  async function onFile({ path, executable, bytes }: ArchiveFile): Promise<void> {
    await makeFolder(dirname(path))
    const target = join(into, path)
    const mode = executable ? 0o755 : 0o644
    const held: Buffer[] = []
    let heldBytes = 0
    let file: FileHandle | undefined
    try {
      for await (const chunk of bytes) {
        held.push(chunk)
        heldBytes += chunk.length
        if (heldBytes <= maxHeldBytes) continue
        file ??= await open(target, newFile, mode)
        await file.writeFile(Buffer.concat(held.splice(0)))
        heldBytes = 0
      }
      if (!file) return writeSmall(target, mode, Buffer.concat(held))
      await file.writeFile(Buffer.concat(held))
      if (uid !== undefined) await file.chown(uid, uid)
    } finally {
      await file?.close()
    }
  }

  /** Without other threads, each of whose steps takes longer than writing a small file: this thread does nothing else. */
  function writeSmall(path: string, mode: number, bytes: Buffer): void {
    const file = openSync(path, newFile, mode)
    try {
      writeFileSync(file, bytes)
      if (uid !== undefined) fchownSync(file, uid, uid)
    } finally {
      closeSync(file)
    }
  }

  async function onCopy({ path, from }: LinkedCopy): Promise<void> {
    await makeFolder(dirname(path))
    const target = join(into, path)
    await copyFile(join(into, from), target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
    if (uid !== undefined) await chown(target, uid, uid)
  }

  return await readArchive(archive, {
    maxEntries: maxArchiveEntries,
    maxBytes: options.maxBytes,
    overMaxBytes: options.overMaxBytes,
    onFile,
    onCopy,
  })
}
