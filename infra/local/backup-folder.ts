import { copyFile, lstat, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** What a backup holds of a data directory, besides the database. */
export const savedFolders = ['cas', 'caddy'] as const
export const savedSecrets = ['operator-token', 'secret-key'] as const

/**
 * Copies a folder whose files may vanish while it is copied; those are left out.
 * @param isWanted judges paths below the folder, such as `base/1/1234`; what it refuses is left out, a folder with its content
 */
export async function copyTree(
  from: string,
  to: string,
  isWanted: (path: string) => boolean | Promise<boolean> = () => true,
  below = '',
): Promise<void> {
  await mkdir(to, { recursive: true, mode: 0o700 })
  for (const entry of await unlessGone(readdir(from, { withFileTypes: true }), [])) {
    const path = below === '' ? entry.name : `${below}/${entry.name}`
    if (!(await isWanted(path))) continue
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) await copyTree(source, target, isWanted, path)
    else if (entry.isFile()) await unlessGone(copyFile(source, target), undefined)
  }
}

export const exists = (path: string) =>
  lstat(path).then(
    () => true,
    () => false,
  )

async function unlessGone<T>(work: Promise<T>, otherwise: T): Promise<T> {
  try {
    return await work
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return otherwise
  }
}
