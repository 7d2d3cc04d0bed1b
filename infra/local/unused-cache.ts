import { opendir, readdir, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const dayMs = 24 * 60 * 60 * 1000
/** File systems that note a reading at all do so at least once a day. */
const unusedAfterMs = 30 * dayMs

/** Folders of the cache with a file for each version of the sources, of which an upgrade leaves the old ones behind. */
const perVersion = ['compiled', 'workflows']
/** Has a folder for each version, which goes as a whole: a process may read a part of it at any time. */
const bundles = 'code'

/** An empty file, whose time says when the last clean-up began. */
const marker = 'last-clean-up'

/**
 * Removes compiled code and bundles that nothing has read or written for 30 days. They are made again when they are missing. It looks at
 * every file, which takes a processor a tenth of a second for a thousand of them, so it does nothing within a day of the last time.
 */
export async function removeUnusedCode(cacheDir: string, now: Date): Promise<void> {
  if (!(await isDue(join(cacheDir, marker), now))) return
  const before = now.getTime() - unusedAfterMs
  for (const folder of perVersion)
    for await (const file of filesIn(join(cacheDir, folder))) if ((await lastUse(file)) < before) await rm(file, { force: true })
  for (const version of await readdir(join(cacheDir, bundles)).catch(() => [])) {
    const folder = join(cacheDir, bundles, version)
    if (await isUnused(folder, before)) await removeFolder(folder)
  }
}

/** Whether a day has passed since the last clean-up; then another one begins. */
async function isDue(path: string, now: Date): Promise<boolean> {
  const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: 0 }))
  // a clock that was set back may have left a time to come
  if (Math.abs(now.getTime() - mtimeMs) < dayMs) return false
  // in a folder that is not writable, or not there, nothing can be removed either
  const began = writeFile(path, '').then(() => utimes(path, now, now))
  return await began.then(
    () => true,
    () => false,
  )
}

async function isUnused(folder: string, before: number): Promise<boolean> {
  // a start writes the time of the folder; reading its names, as here, is not a use
  const { mtimeMs } = await stat(folder).catch(() => ({ mtimeMs: Infinity }))
  if (mtimeMs >= before) return false
  for await (const file of filesIn(folder)) if ((await lastUse(file)) >= before) return false
  return true
}

/** A start takes a folder that is there for a whole bundle, so it goes at once, even if this process is killed here. */
async function removeFolder(folder: string): Promise<void> {
  const removed = folder.endsWith('.removed') ? folder : `${folder}.removed`
  // another start may remove it at the same time
  await rename(folder, removed).catch(() => undefined)
  await rm(removed, { recursive: true, force: true })
}

/** One after the other, because there may be a hundred thousand where many versions were tried. */
async function* filesIn(folder: string): AsyncGenerator<string, void> {
  const entries = await opendir(folder, { recursive: true }).catch(() => [])
  for await (const entry of entries) if (entry.isFile()) yield join(entry.parentPath, entry.name)
}

/** In milliseconds since 1970. Another start may remove it at the same time. */
async function lastUse(path: string): Promise<number> {
  const { atimeMs, mtimeMs } = await stat(path).catch(() => ({ atimeMs: Infinity, mtimeMs: Infinity }))
  return Math.max(atimeMs, mtimeMs)
}
