import { randomUUID } from 'node:crypto'
import { link, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { ConfigError } from '../config.ts'
import { tryLink } from '../lock-file.ts'
import { processIdentity } from '../process-identity.ts'

const formatVersion = 1
const markerName = 'plinth.json'
const lockName = 'launcher.lock'

/** Folders with content that is nobody else's business; as root the data directory itself can be passed through. */
const privateFolders = ['caddy', 'cas', 'edge', 'logs', 'run', 'spool', 'temporal']

/**
 * Makes a data directory ours, or takes ours again, and holds it until disposed.
 * @returns its id, new for every directory that was made
 * @throws ConfigError when it holds something else, is of another user or a later version, or another start holds it
 */
export async function claimDataDir(dir: string): Promise<{ readonly id: string } & AsyncDisposable> {
  const id = await openDataDir(dir)
  const lock = await lockDataDir(dir)
  return { id, ...lock }
}

async function openDataDir(dir: string): Promise<string> {
  const isRoot = process.getuid?.() === 0
  await mkdir(dir, { recursive: true, mode: isRoot ? 0o711 : 0o700 })
  const names = (await readdir(dir)).filter((name) => !name.startsWith(`${markerName}.`))
  const markerFile = join(dir, markerName)
  if (names.length > 0 && !names.includes(markerName)) {
    throw new ConfigError(
      `PLINTH_DATA_DIR ${dir} is not empty and not a data directory of Plinth: choose an empty or a new folder`,
    )
  }
  if (names.length === 0) {
    const id = randomUUID()
    const temporary = `${markerFile}.${process.pid}`
    await writeFile(temporary, `${JSON.stringify({ format: formatVersion, id })}\n`)
    // of two first starts one wins, and both go on with its id
    await link(temporary, markerFile).catch(ignore('EEXIST'))
    await rm(temporary)
  }
  const owner = (await stat(dir)).uid
  if (process.getuid && owner !== process.getuid()) {
    throw new ConfigError(
      `PLINTH_DATA_DIR ${dir} belongs to another user (uid ${owner}, you are ${userInfo().username}): start as that user, or choose another folder`,
    )
  }
  const marker = readMarker(await readFile(markerFile, 'utf8'))
  if (marker?.format !== formatVersion) {
    throw new ConfigError(
      `PLINTH_DATA_DIR ${dir} was written by another version of Plinth (format ${marker?.format ?? 'unknown'}, known is 1)`,
    )
  }
  for (const folder of privateFolders) await mkdir(join(dir, folder), { recursive: true, mode: 0o700 })
  return marker.id
}

function readMarker(text: string): { format: number; id: string } | undefined {
  try {
    return JSON.parse(text) as { format: number; id: string }
  } catch {
    return undefined
  }
}

/** A file with the holder's identity; linking it into place is atomic, so of two starts only one succeeds. */
async function lockDataDir(dir: string): Promise<AsyncDisposable> {
  const file = join(dir, lockName)
  const mine = `${file}.${process.pid}`
  const content = JSON.stringify({ pid: process.pid, identity: await processIdentity(process.pid) })
  await writeFile(mine, content)
  try {
    for (;;) {
      if (await tryLink(mine, file)) return { [Symbol.asyncDispose]: () => rm(file, { force: true }) }
      const held = await readFile(file, 'utf8').catch(() => '')
      if (held === '') continue
      const { pid, identity } = JSON.parse(held) as { pid: number; identity: string }
      if ((await processIdentity(pid)) === identity) {
        throw new ConfigError(
          `another start (pid ${pid}) uses the data directory ${dir}: stop it first, or choose another with PLINTH_DATA_DIR`,
        )
      }
      // the holder was killed; moving aside is atomic too, and what another start has linked meanwhile is put back
      const stale = `${mine}.stale`
      await rename(file, stale).catch(ignore('ENOENT'))
      const moved = await readFile(stale, 'utf8').catch(() => held)
      if (moved !== held) await tryLink(stale, file)
      await rm(stale, { force: true })
    }
  } finally {
    await rm(mine, { force: true })
  }
}

const ignore = (code: string) => (error: unknown) => {
  if ((error as NodeJS.ErrnoException).code !== code) throw error
}
