import { createHmac, randomBytes } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, rename, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { replaceFile } from '../../infra/replace-file.ts'
import { removeTree, workspacePrefix } from '../sandbox/workspace.ts'
import type { Sealed } from './seal.ts'

/** A folder of one project and one key, sealed when it was set aside. */
export interface KeptFolder extends Sealed {
  readonly project: string
  readonly path: string
}

/** The places of kept folders: `caches/<project>/<key>.<bytes>.<seal>` of the build folder. */
export interface KeptStore {
  find(project: string, key: string): Promise<KeptFolder | undefined>
  /** Moves a folder into the place of an earlier one. */
  add(project: string, key: string, from: string, sealed: Sealed): Promise<void>
  /** Lists all kept folders, the least recently used first. Anything else is removed. */
  list(): Promise<KeptFolder[]>
  discard(path: string): Promise<void>
  /** Records that a folder was used. */
  touch(path: string): Promise<void>
  /** A new path for something to remove; the next start removes it when this process does not. */
  doomedPath(): string
}

export async function openKeptStore(buildDir: string): Promise<KeptStore> {
  const root = join(buildDir, 'caches')
  await mkdir(root, { recursive: true })
  await chmod(root, 0o700)
  const secret = await nameSecret(join(root, 'key'))
  /** The name of a text on the disk: it reveals nothing about the text, even when only a few texts are possible. */
  const nameOf = (text: string) => createHmac('sha256', secret).update(text).digest('hex').slice(0, 32)
  const touch = (path: string) => utimes(path, new Date(), new Date())

  return {
    async find(project, key) {
      return (await foldersOf(nameOf(project))).find(({ name }) => name.startsWith(`${nameOf(key)}.`))
    },
    async add(project, key, from, { bytes, seal }) {
      const folder = join(root, nameOf(project))
      await mkdir(folder, { recursive: true, mode: 0o700 })
      for (const name of await readdir(folder)) if (name.startsWith(`${nameOf(key)}.`)) await discard(join(folder, name))
      const kept = join(folder, `${nameOf(key)}.${bytes}.${seal}`)
      if (await moved(from, kept)) await touch(kept)
    },
    async list() {
      const found: (KeptFolder & { readonly usedMs: number })[] = []
      for (const project of await readdir(root)) {
        for (const folder of await foldersOf(project)) {
          const stats = await stat(folder.path).catch(() => undefined)
          if (stats) found.push({ ...folder, usedMs: stats.mtimeMs })
        }
      }
      return found.sort((a, b) => a.usedMs - b.usedMs)
    },
    discard,
    touch,
    doomedPath,
  }

  /** @param project its name on the disk */
  async function foldersOf(project: string): Promise<(KeptFolder & { readonly name: string })[]> {
    const folders: (KeptFolder & { readonly name: string })[] = []
    for (const name of await readdir(join(root, project)).catch(() => [])) {
      const path = join(root, project, name)
      const [, bytes, seal] = /^[0-9a-f]{32}\.(\d+)\.([0-9a-f]{64})$/.exec(name) ?? []
      if (bytes === undefined || seal === undefined) await discard(path)
      else folders.push({ project, path, name, bytes: Number(bytes), seal })
    }
    return folders
  }

  async function discard(path: string): Promise<void> {
    const doomed = doomedPath()
    if (await moved(path, doomed)) await removeTree(doomed)
  }

  function doomedPath(): string {
    return join(buildDir, `${workspacePrefix}cache-${randomBytes(6).toString('hex')}`)
  }
}

/** The salt of this folder; without it, names made of secrets could be guessed. */
async function nameSecret(file: string): Promise<Buffer> {
  const found = await readFile(file).catch(() => undefined)
  if (found?.length === 32) return found
  const made = randomBytes(32)
  await replaceFile(file, made, { mode: 0o600 })
  return made
}

/** Moves a folder. False when another build was faster. */
export async function moved(from: string, to: string): Promise<boolean> {
  try {
    await rename(from, to)
    return true
  } catch (error) {
    if (['ENOENT', 'ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) return false
    throw error
  }
}
