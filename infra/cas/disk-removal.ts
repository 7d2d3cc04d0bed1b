import { randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { link, mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { flushFolder } from '../replace-file.ts'
import { type Layout, suffix } from './disk-layout.ts'
import { absent, unlessThere } from './files.ts'
import { hashOfStream } from './hashes.ts'

/** See `remove` of the storage. */
export async function removeObject(layout: Layout, sha256: string, before: Date): Promise<boolean> {
  const path = layout.pathOf(sha256)
  const variants = Object.values(suffix).map((ending) => path + ending)
  const there = await Promise.all([path, ...variants].map((file) => absent(stat(file))))
  if (there.some((stats) => stats && stats.mtime >= before)) return false
  // variants without their object are left over from a crash
  if (there[0] && !(await removeUnlessRenewed(layout, path, before))) return false
  for (const variant of variants) await rm(variant, { force: true })
  return true
}

/** Removes an object, unless it was stored again since `before`. False when it stays, or was gone already. */
async function removeUnlessRenewed({ incoming }: Layout, path: string, before: Date): Promise<boolean> {
  const aside = join(incoming, randomUUID())
  if (!(await moveAside(path, aside))) return false
  // another sweeper may treat an old file as a leftover
  const taken = await absent(stat(aside))
  const renewed = taken !== undefined && taken.mtime >= before
  // it was stored between the check of its time and the rename
  if (renewed) await linkBack(aside, path)
  await rm(aside, { force: true })
  return !renewed
}

/** See `quarantine` of the storage. */
export async function quarantineObject({ quarantine, pathOf }: Layout, sha256: string): Promise<boolean> {
  const path = pathOf(sha256)
  const aside = join(quarantine, `${sha256}-${Date.now()}`)
  await mkdir(quarantine, { recursive: true })
  if (!(await moveAside(path, aside))) return false
  await flushFolder(dirname(path))
  if ((await hashOfStream(createReadStream(aside))) !== sha256) {
    for (const ending of Object.values(suffix)) await rm(path + ending, { force: true })
    return true
  }
  // it was stored again before the rename
  await linkBack(aside, path)
  await rm(aside)
  return false
}

/** See `removeLeftovers` of the storage. */
export async function removeLeftovers({ incoming }: Layout, before: Date): Promise<number> {
  let removed = 0
  for (const name of await readdir(incoming)) {
    const stats = await absent(stat(join(incoming, name)))
    if (!stats || stats.mtime >= before) continue
    await rm(join(incoming, name), { recursive: true, force: true })
    removed += 1
  }
  return removed
}

/** False when the file is gone. */
const moveAside = async (path: string, aside: string) => (await absent(rename(path, aside).then(() => true))) !== undefined

/** Puts an object back into its place, by a link and not by a rename, because another one may be there by now. */
async function linkBack(aside: string, path: string): Promise<void> {
  await unlessThere(link(aside, path))
  await flushFolder(dirname(path))
}
