import { lstat, mkdir, rm } from 'node:fs/promises'
import { ConfigError } from '../config.ts'

/**
 * Makes the folder of the unix sockets, which only this user may enter; removed at the end. It lies in a folder that everyone can write to,
 * so one that somebody else has made is refused.
 * @throws ConfigError when it is not ours
 */
export async function openSocketDir(dir: string): Promise<AsyncDisposable> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const found = await lstat(dir)
  if (!found.isDirectory() || (process.getuid && found.uid !== process.getuid()) || (found.mode & 0o077) !== 0) {
    throw new ConfigError(`${dir} is needed for sockets, but belongs to somebody else or is open to others: remove it`)
  }
  return { [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }) }
}
