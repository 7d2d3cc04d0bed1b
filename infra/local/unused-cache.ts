import { readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

const dayMs = 24 * 60 * 60 * 1000
/** File systems that note a reading at all do so at least once a day. */
const unusedAfterMs = 30 * dayMs

/** Folders of the cache with a file for each version of the sources, of which an upgrade leaves the old ones behind. */
const perVersion = ['compiled', 'workflows']
/** Has a folder for each version, which goes as a whole: a process may read a part of it at any time. */
const bundles = 'code'

/** Removes compiled code and bundles that nothing has read or written for 30 days. They are made again when they are missing. */
export async function removeUnusedCode(cacheDir: string, now: Date): Promise<void> {
  const before = now.getTime() - unusedAfterMs
  for (const folder of perVersion)
    for (const file of await filesIn(join(cacheDir, folder))) if ((await lastUse(file)) < before) await rm(file, { force: true })
  for (const version of await readdir(join(cacheDir, bundles)).catch(() => [])) {
    const folder = join(cacheDir, bundles, version)
    // a start writes the time of the folder; reading its names, as here, is not a use
    const { mtimeMs } = await stat(folder).catch(() => ({ mtimeMs: Infinity }))
    const uses = await Promise.all((await filesIn(folder)).map(lastUse))
    if (Math.max(mtimeMs, ...uses) < before) await removeFolder(folder)
  }
}

/** A start takes a folder that is there for a whole bundle, so it goes at once, even if this process is killed here. */
async function removeFolder(folder: string): Promise<void> {
  const removed = folder.endsWith('.removed') ? folder : `${folder}.removed`
  // another start may remove it at the same time
  await rename(folder, removed).catch(() => undefined)
  await rm(removed, { recursive: true, force: true })
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  return entries.flatMap((entry) => (entry.isFile() ? [join(entry.parentPath, entry.name)] : []))
}

/** In milliseconds since 1970. Another start may remove it at the same time. */
async function lastUse(path: string): Promise<number> {
  const { atimeMs, mtimeMs } = await stat(path).catch(() => ({ atimeMs: Infinity, mtimeMs: Infinity }))
  return Math.max(atimeMs, mtimeMs)
}
