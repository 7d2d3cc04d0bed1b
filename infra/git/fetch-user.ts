import { createHash } from 'node:crypto'

/** Above those of builds, which end at 52,767, and below `nobody`. */
const firstUid = 53_000
const uidsPerFolder = 256
const ranges = 40

/**
 * Users for processes that read untrusted repositories. No two concurrent processes have the same one: otherwise one could read the memory of
 * the other, including its token. They also depend on the folder, so that workers of several data directories on one machine share none.
 * Undefined when this process is not root: then they run as its own user.
 */
export function createFetchUsers(dir: string): () => number | undefined {
  const range = createHash('sha256').update(dir).digest().readUInt16BE(0) % ranges
  let started = process.pid
  return () => {
    if (process.getuid?.() !== 0) return undefined
    started += 1
    return firstUid + range * uidsPerFolder + (started % uidsPerFolder)
  }
}
