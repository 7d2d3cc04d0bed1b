import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { link, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Cas, Encoding } from './cas.ts'
import { openDiskBatch, writeGzip } from './disk-batch.ts'
import { absent, flushFolder, openedFile, outOfSpace, unlessThere } from './files.ts'

const suffix = { gzip: '.gz' } as const satisfies Record<Encoding, string>
const objectName = /^([0-9a-f]{62})(?:\.gz)?$/

const pathIn = (root: string, sha256: string) => join(root, 'objects', sha256.slice(0, 2), sha256.slice(2))

/** A folder with the layout of a storage that is only read, such as a backup's; it may be absent, and have some of the objects. */
export function openDiskCopy(root: string): Pick<Cas, 'open'> {
  return {
    async open(sha256, encoding) {
      const file = await absent(open(pathIn(root, sha256) + (encoding ? suffix[encoding] : '')))
      return file && openedFile(file)
    },
  }
}

/**
 * Objects as files `objects/ab/cd…` of mode 0444. A write goes to `incoming/`, is flushed, renamed into place, and its
 * folder flushed, so a name in `objects/` always has its whole content (the fsync discipline of PostgreSQL's durable_rename).
 */
export async function openDiskCas(root: string): Promise<Cas> {
  const incoming = join(root, 'incoming')
  const objects = join(root, 'objects')
  const quarantine = join(root, 'quarantine')
  await mkdir(incoming, { recursive: true })
  await mkdir(objects, { recursive: true })
  const pathOf = (sha256: string) => pathIn(root, sha256)
  const places = { incoming, objects, pathOf, madeFolders: new Set<string>() }

  /** Takes an object out of its place, unless it was stored again since `before`. False when it is there, or gone by itself. */
  async function takeAside(path: string, before: Date): Promise<boolean> {
    const aside = join(incoming, randomUUID())
    if ((await absent(rename(path, aside).then(() => true))) === undefined) return false
    // another sweeper may take it for a leftover, when it is old
    const taken = await absent(stat(aside))
    const renewed = taken !== undefined && taken.mtime >= before
    if (renewed) {
      // it was stored between the look at its time and the renaming; a link, as yet another one may lie there by now
      await unlessThere(link(aside, path))
      await flushFolder(dirname(path))
    }
    await rm(aside, { force: true })
    return !renewed
  }

  return {
    ...openDiskCopy(root),

    batch: () => openDiskBatch(places),

    async put(bytes, options) {
      await using batch = openDiskBatch(places)
      const stored = await batch.add(bytes, options)
      await batch.publish()
      return stored
    },

    async stat(sha256) {
      const stats = await absent(stat(pathOf(sha256)))
      return stats && { size: stats.size, storedAt: stats.mtime }
    },

    async encode(sha256, encoding) {
      const path = pathOf(sha256)
      if (await absent(stat(path + suffix[encoding]))) return
      const source = await absent(open(path))
      if (!source) return
      const temporary = join(incoming, randomUUID())
      try {
        const { size } = await source.stat()
        await using file = await open(temporary, 'wx', 0o444)
        if ((await writeGzip(source, file)) > size * 0.9) return
        await file.sync()
        await rename(temporary, path + suffix[encoding])
        await flushFolder(dirname(path))
      } catch (error) {
        throw outOfSpace(error)
      } finally {
        await rm(temporary, { force: true })
      }
    },

    async *list(prefix) {
      for (const folder of prefix === undefined ? await readdir(objects) : [prefix]) {
        const names = prefix === undefined ? await readdir(join(objects, folder)) : await absent(readdir(join(objects, folder)))
        const hashes = (names ?? []).flatMap((name) => {
          const rest = objectName.exec(name)?.[1]
          return rest === undefined ? [] : [folder + rest]
        })
        yield [...new Set(hashes)]
      }
    },

    async removeVariant(sha256, encoding) {
      await rm(pathOf(sha256) + suffix[encoding], { force: true })
    },

    async quarantine(sha256) {
      const path = pathOf(sha256)
      const aside = join(quarantine, `${sha256}-${Date.now()}`)
      await mkdir(quarantine, { recursive: true })
      if ((await absent(rename(path, aside).then(() => true))) === undefined) return false
      await flushFolder(dirname(path))
      if ((await hashOfFile(aside)) !== sha256) {
        for (const ending of Object.values(suffix)) await rm(path + ending, { force: true })
        return true
      }
      // it was stored again before it was taken
      await unlessThere(link(aside, path))
      await flushFolder(dirname(path))
      await rm(aside)
      return false
    },

    async remove(sha256, before) {
      const path = pathOf(sha256)
      const variants = Object.values(suffix).map((ending) => path + ending)
      const there = await Promise.all([path, ...variants].map((file) => absent(stat(file))))
      if (there.some((stats) => stats && stats.mtime >= before)) return false
      // without the object its variants are what a crash left
      if (there[0] && !(await takeAside(path, before))) return false
      for (const variant of variants) await rm(variant, { force: true })
      return true
    },

    async removeLeftovers(before) {
      let removed = 0
      for (const name of await readdir(incoming)) {
        const stats = await absent(stat(join(incoming, name)))
        if (!stats || stats.mtime >= before) continue
        await rm(join(incoming, name), { recursive: true, force: true })
        removed += 1
      }
      return removed
    },
  }
}

/** Undefined when the file cannot be read to its end. */
async function hashOfFile(path: string): Promise<string | undefined> {
  const hash = createHash('sha256')
  try {
    for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) hash.update(chunk)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EIO') return undefined
    throw error
  }
  return hash.digest('hex')
}
