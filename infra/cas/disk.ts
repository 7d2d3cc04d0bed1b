import { randomUUID } from 'node:crypto'
import { type FileHandle, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Encoding } from '../../core/encodings.ts'
import { flushFolder } from '../replace-file.ts'
import type { Cas } from './cas.ts'
import { openDiskBatch } from './disk-batch.ts'
import { type Layout, openLayout, pathIn, storageTime, suffix } from './disk-layout.ts'
import { quarantineObject, removeLeftovers, removeObject } from './disk-removal.ts'
import { absent, openFile, outOfSpace } from './files.ts'
import { savesEnough, writeGzip } from './gzip.ts'

/** Opens a read-only folder with the layout of a storage, such as a backup's. It may be absent, and need not have all objects. */
export function openDiskCopy(root: string): Pick<Cas, 'open'> {
  return {
    open: (sha256, encoding) => openFile(pathIn(root, sha256, encoding)),
  }
}

/**
 * Objects as files `objects/ab/cd…` of mode 0444. A write goes to `incoming/`, is flushed, renamed into place, and its
 * folder flushed, so a name in `objects/` always has its whole content (the fsync discipline of PostgreSQL's durable_rename).
 */
export async function openDiskCas(root: string): Promise<Cas> {
  const layout = await openLayout(root)
  return {
    ...openDiskCopy(root),

    batch: () => openDiskBatch(layout),

    async put(bytes, options) {
      await using batch = openDiskBatch(layout)
      const stored = await batch.add(bytes, options)
      await batch.publish()
      return stored
    },

    now: () => storageTime(layout),

    async stat(sha256) {
      const stats = await absent(stat(layout.pathOf(sha256)))
      return stats && { size: stats.size, storedAt: stats.mtime }
    },

    async encode(sha256, encoding) {
      const path = layout.pathOf(sha256)
      if (await absent(stat(path + suffix[encoding]))) return
      const source = await absent(open(path))
      if (!source) return
      const { size } = await source.stat()
      await writeVariant(layout, sha256, encoding, async (file) => savesEnough(await writeGzip(source, file), size))
    },

    putVariant: (sha256, encoding, bytes) =>
      writeVariant(layout, sha256, encoding, async (file) => {
        await file.writeFile(bytes)
        return (await absent(stat(layout.pathOf(sha256)))) !== undefined
      }),

    list: (prefix) => listObjects(layout, prefix),

    async removeVariant(sha256, encoding) {
      await rm(layout.pathOf(sha256) + suffix[encoding], { force: true })
    },

    quarantine: (sha256) => quarantineObject(layout, sha256),
    remove: (sha256, before) => removeObject(layout, sha256, before),
    removeLeftovers: (before) => removeLeftovers(layout, before),
  }
}

/** @param fill writes the variant; returns whether to keep it */
async function writeVariant(
  { incoming, pathOf }: Layout,
  sha256: string,
  encoding: Encoding,
  fill: (file: FileHandle) => Promise<boolean>,
): Promise<void> {
  const path = pathOf(sha256)
  const temporary = join(incoming, randomUUID())
  try {
    await using file = await open(temporary, 'wx', 0o444)
    if (!(await fill(file))) return
    await file.sync()
    await rename(temporary, path + suffix[encoding])
    await flushFolder(dirname(path))
  } catch (error) {
    throw outOfSpace(error)
  } finally {
    await rm(temporary, { force: true })
  }
}

const objectName = /^([0-9a-f]{62})(?:\.(?:gz|br|zst))?$/

async function* listObjects({ objects }: Layout, prefix?: string): AsyncIterable<readonly string[]> {
  for (const folder of prefix === undefined ? await readdir(objects) : [prefix]) {
    const names = prefix === undefined ? await readdir(join(objects, folder)) : await absent(readdir(join(objects, folder)))
    const hashes = (names ?? []).flatMap((name) => {
      const rest = objectName.exec(name)?.[1]
      return rest === undefined ? [] : [folder + rest]
    })
    yield [...new Set(hashes)]
  }
}
