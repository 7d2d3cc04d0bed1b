import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { noStaticIndex, noStaticIndexIn } from '../../core/build-plan.ts'
import type { BuildSettings } from '../../core/build-settings.ts'
import { type FrameworkName, getFramework } from '../../core/frameworks.ts'
import { type Generator, isBuilt, unavailable } from '../../core/generators.ts'
import {
  type BuildTraces,
  noIndexInOutputDir,
  noOutputDir,
  noOutputFolder,
  noOutputIndex,
  type OutputFolder,
  outputFolders,
} from '../../core/output-folders.ts'
import { isRealFolder } from '../sandbox/hostile-tree.ts'
import { type BeforeBuild, findIndexFolder, wroteTo } from './build-writes.ts'

/** The folder to publish, and what is said when it holds no index.html; or why there is none. */
export type FoundOutput = { readonly folder: string; readonly noIndex: string } | { readonly error: string }

export interface OutputRequest {
  readonly before: BeforeBuild
  readonly framework: FrameworkName | undefined
  readonly settings: BuildSettings
}

/**
 * Looks for what a build wrote. The tree is hostile: only real folders count.
 * @param folder of the package that was built, with a slash at its end; the root is empty
 * @param paths of the source's files
 */
export async function findOutput(
  root: string,
  folder: string,
  paths: ReadonlySet<string>,
  { before, framework, settings }: OutputRequest,
): Promise<FoundOutput> {
  const written = await writtenFolders(root, folder, paths)
  const named = settings.output_dir
  if (named) {
    if (!(await isRealFolder(root, folder + named))) return { error: noOutputDir(named, written, settings) }
    return { folder: join(root, folder, named), noIndex: noIndexInOutputDir(named, written, settings) }
  }
  const output = await firstOf(outputFolders, (name) => wroteTo(root, folder, name, before))
  if (output !== undefined && (await isFile(root, `${folder}${output}/index.html`))) return published(output, noTraces)
  const traces = {
    written,
    framework,
    hasServer: await hasServer(root, folder, framework),
    indexFolder: await findIndexFolder(root, folder, before, output),
  }
  if (output !== undefined) return published(output, traces)
  const stale = await firstOf(outputFolders, (name) => isRealFolder(root, folder + name))
  if (stale === undefined || traces.indexFolder !== undefined || (await hasWorked(root, folder, before, framework))) {
    return { error: noOutputFolder(traces, stale, settings) }
  }
  // a build that wrote no pages anywhere may only have checked those of the source
  return published(stale, traces)

  function published(name: OutputFolder, found: BuildTraces): FoundOutput {
    return { folder: join(root, folder, name), noIndex: noOutputIndex(name, found) }
  }
}

/**
 * As {@link findOutput}, for a source that is published as it is.
 * @param generator the one that the folder is made for
 */
export function findStaticOutput(
  root: string,
  folder: string,
  paths: ReadonlySet<string>,
  settings: BuildSettings,
  generator: Generator | undefined,
): FoundOutput {
  const { root_dir, output_dir: named } = settings
  if (named) {
    const isThere = [...paths].some((path) => path.startsWith(`${folder}${named}/`))
    if (!isThere) return { error: noOutputDir(named, undefined, settings) }
    return { folder: join(root, folder, named), noIndex: noIndexInOutputDir(named, undefined, settings) }
  }
  const noIndex = root_dir === null ? noStaticIndex(settings) : noStaticIndexIn(root_dir, settings)
  if (!paths.has(`${folder}index.html`)) {
    return { error: generator && !isBuilt(generator) ? unavailable(generator) : noIndex }
  }
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

const noTraces: BuildTraces = { written: [], indexFolder: undefined, framework: undefined, hasServer: false }

async function hasServer(root: string, folder: string, framework: FrameworkName | undefined): Promise<boolean> {
  const servers = framework ? getFramework(framework).serverFolders : []
  return (await firstOf(servers, (server) => isRealFolder(root, folder + server))) !== undefined
}

/** Whether the framework built something, wherever the site is. */
async function hasWorked(root: string, folder: string, before: BeforeBuild, framework: FrameworkName | undefined) {
  const { workFolder } = framework ? getFramework(framework) : {}
  return workFolder !== undefined && (await wroteTo(root, folder, workFolder, before))
}

async function isFile(root: string, path: string): Promise<boolean> {
  const stats = await lstat(join(root, path)).catch(() => undefined)
  return stats?.isFile() === true
}

async function firstOf<T>(list: readonly T[], holds: (item: T) => Promise<boolean>): Promise<T | undefined> {
  for (const item of list) if (await holds(item)) return item
  return undefined
}
