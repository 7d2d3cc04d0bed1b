import type { Dirent } from 'node:fs'
import { readdir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { judgePath } from '../../core/manifest.ts'
import { notRegular } from '../../core/skipped-paths.ts'
import type { SkippedPaths } from '../../infra/archive/skipped-paths.ts'

export interface ListedEntry {
  readonly name: string
  /** Where a file or a link is published; undefined for a folder. */
  readonly path: string | undefined
  /** The text of a symbolic link. */
  readonly link?: string
}

interface Unpublished {
  readonly skipped: SkippedPaths
  readonly isIgnored: (path: string, isFolder: boolean) => boolean
}

/**
 * Lists what may be published of one hostile folder: its folders, and its files and links with a path that can be published, sorted. What is
 * none of them goes to `skipped`, as does what is ignored. The listing ends after `maxFiles` files.
 * @param prefix path of the folder in what is published, with a slash at its end; the root is empty
 */
export async function listFolder(
  folder: string,
  prefix: string,
  maxFiles: number,
  { skipped, isIgnored }: Unpublished,
): Promise<ListedEntry[]> {
  const entries: Dirent[] = await readdir(folder, { withFileTypes: true })
  const listed: ListedEntry[] = []
  let files = 0
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (files >= maxFiles) break
    const { name } = entry
    const verdict = entry.isFile() || entry.isSymbolicLink() ? judgePath(prefix + name) : undefined
    if (isIgnored(prefix + name, entry.isDirectory())) {
      skipped.add(`${prefix}${name}${entry.isDirectory() ? '/' : ''}`, 'ignored by plinth.json')
    } else if (entry.isDirectory()) {
      listed.push({ name, path: undefined })
    } else if (verdict?.kind === 'keep') {
      files += 1
      const link = entry.isSymbolicLink() ? await readlink(join(folder, name)).catch(() => '') : undefined
      listed.push({ name, path: verdict.path, ...(link !== undefined && { link }) })
    } else {
      skipped.add(prefix + name, notRegular)
    }
  }
  return listed
}
