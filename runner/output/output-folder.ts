import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type BuildSettings, noStaticIndex, noStaticIndexIn } from '../../core/build-plan.ts'
import { noIndexInOutputDir, noOutputDir, noOutputFolder, noOutputIndex, outputFolders } from '../../core/output-folders.ts'
import { isRealFolder } from '../sandbox/hostile-tree.ts'

/** The folder to publish, and what is said when it holds no index.html; or why there is none. */
export type FoundOutput = { readonly folder: string; readonly noIndex: string } | { readonly error: string }

/**
 * Looks for what a build wrote. The tree is hostile: only real folders count.
 * @param folder of the package that was built, with a slash at its end; the root is empty
 * @param paths of the source's files
 */
export async function findOutput(
  root: string,
  folder: string,
  paths: ReadonlySet<string>,
  settings?: BuildSettings,
): Promise<FoundOutput> {
  const written = await writtenFolders(root, folder, paths)
  const named = settings?.output_dir
  if (named) {
    if (!(await isRealFolder(root, folder + named))) return { error: noOutputDir(named, written) }
    return { folder: join(root, folder, named), noIndex: noIndexInOutputDir(named, written) }
  }
  for (const output of outputFolders) {
    if (!(await isRealFolder(root, folder + output))) continue
    return { folder: join(root, folder, output), noIndex: noOutputIndex(output, written) }
  }
  return { error: noOutputFolder(written, settings) }
}

/** As {@link findOutput}, for a source that is published as it is. */
export function findStaticOutput(
  root: string,
  folder: string,
  paths: ReadonlySet<string>,
  { root_dir, settings }: { readonly root_dir: string | null; readonly settings: BuildSettings | undefined },
): FoundOutput {
  const named = settings?.output_dir
  if (named) {
    const isThere = [...paths].some((path) => path.startsWith(`${folder}${named}/`))
    if (!isThere) return { error: noOutputDir(named, undefined) }
    return { folder: join(root, folder, named), noIndex: noIndexInOutputDir(named, undefined) }
  }
  const noIndex = root_dir === null ? noStaticIndex(settings) : noStaticIndexIn(root_dir, settings)
  if (!paths.has(`${folder}index.html`)) return { error: noIndex }
  return { folder: join(root, folder), noIndex }
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
