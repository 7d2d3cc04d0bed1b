import { readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** Segments that were set aside are kept so that an operator can find out why: so many of the newest, as long as they fit. */
const maxFiles = 16
const maxBytes = 16 * 1024 * 1024
const named = /^([0-9a-f-]{36})-(\d{1,12})\.bad$/

/** Keeps a segment that cannot be applied as `<dir>/<stream id>-<number>.bad`, and removes the oldest of those beyond the bounds. */
export async function keepAside(dir: string, file: string, streamId: string, number: number): Promise<void> {
  await rename(file, join(dir, `${streamId}-${number}.bad`)).catch(() => undefined)
  await pruneAside(dir)
}

/** Removes the oldest segments that were set aside, beyond the bounds. A disk that does not answer is no reason to stop counting. */
export async function pruneAside(dir: string): Promise<void> {
  try {
    let bytes = 0
    for (const [index, name] of (await newestFirst(dir)).entries()) {
      bytes += (await stat(join(dir, name))).size
      if (index >= maxFiles || bytes > maxBytes) await rm(join(dir, name), { force: true })
    }
  } catch {
    // the next one that is set aside tries again
  }
}

/** Ids of streams and numbers grow with time. */
async function newestFirst(dir: string): Promise<string[]> {
  const found = (await readdir(dir)).flatMap((name) => {
    const [, stream, number] = named.exec(name) ?? []
    return stream ? [{ name, stream, number: Number(number) }] : []
  })
  return found
    .sort((a, b) => (a.stream === b.stream ? b.number - a.number : a.stream < b.stream ? 1 : -1))
    .map(({ name }) => name)
}
