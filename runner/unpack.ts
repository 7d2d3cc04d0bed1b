import { chown, mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { maxArchiveEntries } from '../core/limits.ts'
import { type ArchiveContent, readArchive } from '../infra/archive/archive.ts'
import type { ArchiveFile } from '../infra/archive/reading.ts'
import type { Cas } from '../infra/cas/cas.ts'
import type { Workspace } from './workspace.ts'

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
  /** The owner of what is written; undefined is the runner. */
  readonly uid: number | undefined
  readonly maxBytes: number
  readonly overMaxBytes: string
  readonly signal: AbortSignal
}

/**
 * Writes the regular files of an archive into a folder that holds nothing yet and that no other process writes to.
 * @throws AppError as `readArchive`
 */
export async function unpack(archive: string, into: string, options: UnpackOptions): Promise<ArchiveContent> {
  const { uid, signal } = options
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
    signal.throwIfAborted()
    await makeFolder(dirname(path))
    // `wx` fails on anything that is there already, a link included
    await using file = await open(join(into, path), 'wx', executable ? 0o755 : 0o644)
    for await (const chunk of bytes) {
      signal.throwIfAborted()
      await file.writeFile(chunk)
    }
    if (uid !== undefined) await file.chown(uid, uid)
  }

  return await readArchive(archive, {
    maxEntries: maxArchiveEntries,
    maxBytes: options.maxBytes,
    overMaxBytes: options.overMaxBytes,
    onFile,
  })
}
