import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { dataDirHash } from '../config.ts'
import { isSearchableByAll } from './service-user.ts'

const systemDir = '/var/lib/plinth'

/**
 * Where things lie that a program under another uid must reach: in the folder itself, or, when this process is root and other users
 * cannot pass through the folder's parents, in a folder below /var/lib/plinth that is named after it.
 */
export async function reachableFolder(dir: string): Promise<string> {
  if (process.getuid?.() !== 0 || (await isSearchableByAll(dir))) return dir
  const place = join(systemDir, dataDirHash(dir))
  await mkdir(place, { recursive: true, mode: 0o711 })
  return place
}

/**
 * Moves aside what a deleted data directory of the same path has left below /var/lib/plinth: its database would not fit to the new files.
 * @param id of the data directory as it is now
 */
export async function claimReachableFolder(dataDir: string, id: string, report: (line: string) => void): Promise<string> {
  const place = await reachableFolder(dataDir)
  if (place === dataDir) return place
  const ownerFile = join(place, 'data-dir.json')
  const owner = await readFile(ownerFile, 'utf8').then(
    (text) => (JSON.parse(text) as { id: string }).id,
    () => undefined,
  )
  if (owner === id) return place
  if (owner !== undefined) {
    const aside = `${place}.${owner}`
    await rename(place, aside)
    report(`${place} belonged to an earlier data directory at ${dataDir}: it is now ${aside} and may be deleted`)
    await mkdir(place, { mode: 0o711 })
  }
  await writeFile(ownerFile, `${JSON.stringify({ id, path: dataDir })}\n`)
  return place
}
