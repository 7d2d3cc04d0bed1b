import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { noOutputFolder, noOutputIndex, outputFolders } from '../core/build-plan.ts'
import { isRealFolder } from './collect.ts'

/** The folder to publish, and what is said when it holds no index.html; or why there is none. */
export type FoundOutput = { readonly folder: string; readonly noIndex: string } | { readonly error: string }

/**
 * Looks for what a build wrote. The tree is hostile: only real folders count.
 * @param folder of the package that was built, with a slash at its end; the root is empty
 * @param paths of the source's files
 */
export async function findOutput(root: string, folder: string, paths: ReadonlySet<string>): Promise<FoundOutput> {
  const written = await writtenFolders(root, folder, paths)
  for (const output of outputFolders) {
    if (!(await isRealFolder(root, folder + output))) continue
    return { folder: join(root, folder, output), noIndex: noOutputIndex(output, written) }
  }
  return { error: noOutputFolder(written) }
}

/** Folders beside package.json that the source did not have. */
async function writtenFolders(root: string, folder: string, paths: ReadonlySet<string>): Promise<string[]> {
  if (folder !== '' && !(await isRealFolder(root, folder.slice(0, -1)))) return []
  const given = new Set(
    [...paths].filter((path) => path.startsWith(folder)).map((path) => path.slice(folder.length).split('/', 1)[0]),
  )
  const entries = await readdir(join(root, folder), { withFileTypes: true })
  const made = entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith('.') && entry.name !== 'node_modules')
  return made
    .map((entry) => entry.name)
    .filter((name) => !given.has(name))
    .sort()
}
