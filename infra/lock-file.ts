import { randomBytes } from 'node:crypto'
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { processIdentity } from './process-identity.ts'

const pollMs = 200

/**
 * Holds a lock file until disposed, and waits as long as another process, or another caller in this one, holds it. What a killed
 * process held is free. The folder must exist.
 */
export async function takeLockFile(file: string): Promise<AsyncDisposable> {
  const mine = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`
  await writeFile(mine, JSON.stringify({ pid: process.pid, identity: await processIdentity(process.pid) }))
  try {
    while (!(await tryLink(mine, file))) {
      if (await isHeld(file)) await pause(pollMs)
      else await removeStale(file, `${mine}.stale`)
    }
  } finally {
    await rm(mine, { force: true })
  }
  return { [Symbol.asyncDispose]: () => rm(file, { force: true }) }
}

/** False when there is something under the new name already. Linking is atomic: of two only one succeeds. */
export async function tryLink(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

async function isHeld(file: string): Promise<boolean> {
  const holder = await readHolder(file)
  return holder !== undefined && (await processIdentity(holder.pid)) === holder.identity
}

/** Moving aside is atomic too; what another has linked meanwhile is put back. */
async function removeStale(file: string, aside: string): Promise<void> {
  try {
    await rename(file, aside)
  } catch {
    return // another was faster
  }
  if (await isHeld(aside)) await tryLink(aside, file)
  await rm(aside, { force: true })
}

async function readHolder(file: string): Promise<{ pid: number; identity: string } | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as { pid: number; identity: string }
  } catch {
    return undefined
  }
}
