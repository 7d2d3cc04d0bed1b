import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

const dayMs = 24 * 60 * 60 * 1000
/** File systems that note a reading at all do so at least once a day. */
const unusedAfterMs = 30 * dayMs

/** Folders of the cache with a file for each version of the sources, of which an upgrade leaves the old ones behind. */
const perVersion = ['compiled', 'workflows']

/** Removes compiled code and workflow bundles that nothing has read or written for 30 days. They are made again when they are missing. */
export async function removeUnusedCode(cacheDir: string, now: Date): Promise<void> {
  const before = now.getTime() - unusedAfterMs
  for (const folder of perVersion) {
    const entries = await readdir(join(cacheDir, folder), { recursive: true, withFileTypes: true }).catch(() => [])
    for (const entry of entries) if (entry.isFile()) await removeUnused(join(entry.parentPath, entry.name), before)
  }
}

/** Another start may remove it at the same time. */
async function removeUnused(file: string, beforeMs: number): Promise<void> {
  const { atimeMs, mtimeMs } = await stat(file).catch(() => ({ atimeMs: Infinity, mtimeMs: Infinity }))
  if (Math.max(atimeMs, mtimeMs) < beforeMs) await rm(file, { force: true })
}
