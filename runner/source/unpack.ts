import { chown, type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { maxArchiveEntries } from '../../core/limits.ts'
import { type ArchiveContent, readArchive } from '../../infra/archive/archive.ts'
import type { ArchiveFile } from '../../infra/archive/reading.ts'
import type { Cas } from '../../infra/cas/cas.ts'
import { createTaskGroup } from '../../infra/task-group.ts'
import type { Workspace } from '../sandbox/workspace.ts'

const writesAtOnce = 8
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
 * Writes the regular files of an archive into an empty folder that no other process writes to.
 * @throws AppError as `readArchive`
 */
export async function unpack(archive: string, into: string, options: UnpackOptions): Promise<ArchiveContent> {
  const { uid } = options
  const made = new Set(['.'])
  const writes = createTaskGroup(writesAtOnce)

  async function makeFolder(folder: string): Promise<void> {
    if (made.has(folder)) return
    await makeFolder(dirname(folder))
    const path = join(into, folder)
    await mkdir(path, { mode: 0o755 })
    if (uid !== undefined) await chown(path, uid, uid)
    made.add(folder)
  }

  /** The end of a file is written while the next one is read. */
  async function onFile({ path, executable, bytes }: ArchiveFile): Promise<void> {
    await makeFolder(dirname(path))
    await writes.room()
    // `wx` fails on anything that is there already, a link included
    const create = () => open(join(into, path), 'wx', executable ? 0o755 : 0o644)
    const held: Buffer[] = []
    let heldBytes = 0
    let file: FileHandle | undefined
    try {
      for await (const chunk of bytes) {
        held.push(chunk)
        heldBytes += chunk.length
        if (heldBytes <= maxHeldBytes) continue
        file ??= await create()
        await file.writeFile(Buffer.concat(held.splice(0)))
        heldBytes = 0
      }
    } catch (error) {
      await file?.close()
      throw error
    }
    writes.add(finish(file ?? create(), Buffer.concat(held)))
  }

  async function finish(created: FileHandle | Promise<FileHandle>, end: Buffer): Promise<void> {
    await using file = await created
    await file.writeFile(end)
    if (uid !== undefined) await file.chown(uid, uid)
  }

  try {
    const content = await readArchive(archive, {
      maxEntries: maxArchiveEntries,
      maxBytes: options.maxBytes,
      overMaxBytes: options.overMaxBytes,
      onFile,
    })
    await writes.finished()
    return content
  } finally {
    await writes.settled()
  }
}
