import { join } from 'node:path'
import { noRootDir } from '../../core/build-plan.ts'
import type { BuildSettings } from '../../core/build-settings.ts'
import { isBuilt } from '../../core/generators.ts'
import { locateProject, locateRoot } from '../../core/root-dir.ts'
import type { SkippedPaths } from '../../infra/archive/skipped-paths.ts'
import { type FoundOutput, findStaticOutput } from '../output/output-folder.ts'
import { readOwnSettings } from './own-settings.ts'
import { findGenerator, planSource, type SourcePlan } from './source-plan.ts'
import { type UnpackOptions, unpack } from './unpack.ts'

export interface SourceRequest extends UnpackOptions {
  /** Path of the source archive. */
  readonly archive: string
  /** The empty folder to unpack it into. */
  readonly into: string
  readonly settings: BuildSettings
}

/** The place of the project in an unpacked source. */
export interface SourceTree {
  /** The root folder inside the build. */
  readonly root: string
  /** Paths of all files below it. */
  readonly paths: ReadonlySet<string>
  /** The folder to build, with a trailing slash; the root is empty. */
  readonly folder: string
}

type Place = Omit<SourceTree, 'paths'>

/** A source: a folder that is published as it is, a project to build, or a refusal with a text for its author. */
export type SourceKind =
  | { readonly kind: 'static'; readonly output: FoundOutput; readonly settings: BuildSettings }
  | ({ readonly kind: 'build'; readonly plan: SourcePlan; readonly settings: BuildSettings } & Place)
  | { readonly kind: 'refused'; readonly error: string }

export interface SourceReading {
  /** The paths of all unpacked files. */
  readonly files: number
  readonly source: SourceKind
  /** Undefined without a project. */
  readonly tree: SourceTree | undefined
  /** The patterns of `plinth.json` for what is not published. */
  readonly ignore: readonly string[]
}

/**
 * Unpacks a source archive and plans its build.
 * @throws AppError as `unpack`
 */
export async function readSource(request: SourceRequest, skipped: SkippedPaths): Promise<SourceReading> {
  const content = await unpack(request.archive, request.into, request)
  const files = content.paths.size
  const refused = (error: string): SourceReading => ({ files, source: { kind: 'refused', error }, tree: undefined, ignore: [] })
  // without the folder of the settings, plinth.json may still name another
  const { wrapping, folder: named } =
    locateProject(content.paths, request.settings) ?? locateRoot(content.paths, request.settings)
  for (const { path, reason } of content.skipped)
    skipped.addListed({ path: path.startsWith(wrapping) ? path.slice(wrapping.length) : path, reason })
  const root = join(request.into, wrapping)
  const paths = new Set([...content.paths].filter((path) => path.startsWith(wrapping)).map((path) => path.slice(wrapping.length)))
  const own = await readOwnSettings(root, paths, named, request.settings)
  if ('error' in own) return refused(own.error)
  const { settings, ignore } = own
  const folder = settings.root_dir === null ? '' : `${settings.root_dir}/`
  if (!isFolderOf(paths, folder)) return refused(noRootDir(settings.root_dir ?? '', settings))
  const tree = { root, paths, folder }
  const generator = await findGenerator(root, paths, folder)
  if (!paths.has(`${folder}package.json`) && !settings.build_command) {
    const isReady = paths.has(`${folder}index.html`)
    if (isReady || !isBuilt(generator)) {
      const output = findStaticOutput(root, folder, paths, settings, generator)
      return { files, source: { kind: 'static', output, settings }, tree, ignore }
    }
  }
  const plan = await planSource(root, paths, folder, settings, generator)
  return { files, source: { kind: 'build', plan, settings, root, folder }, tree, ignore }
}

function isFolderOf(paths: ReadonlySet<string>, folder: string): boolean {
  if (folder === '') return true
  for (const path of paths) if (path.startsWith(folder)) return true
  return false
}
