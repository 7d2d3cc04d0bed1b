import { join } from 'node:path'
import { noRootDir } from '../../core/build-plan.ts'
import type { BuildSettings } from '../../core/build-settings.ts'
import { locateProject } from '../../core/root-dir.ts'
import type { SkippedPaths } from '../../infra/archive/skipped-paths.ts'
import { type FoundOutput, findStaticOutput } from '../output/output-folder.ts'
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
  | { readonly kind: 'static'; readonly output: FoundOutput }
  | ({ readonly kind: 'build'; readonly plan: SourcePlan } & Place)
  | { readonly kind: 'refused'; readonly error: string }

export interface SourceReading {
  /** The paths of all unpacked files. */
  readonly files: number
  readonly source: SourceKind
  /** Undefined without a project. */
  readonly tree: SourceTree | undefined
}

/**
 * Unpacks a source archive and plans its build.
 * @throws AppError as `unpack`
 */
export async function readSource(request: SourceRequest, skipped: SkippedPaths): Promise<SourceReading> {
  const { settings } = request
  const content = await unpack(request.archive, request.into, request)
  const files = content.paths.size
  const project = locateProject(content.paths, settings)
  const wrapping = project?.wrapping ?? ''
  for (const path of content.skipped_paths) skipped.add(path.startsWith(wrapping) ? path.slice(wrapping.length) : path)
  if (!project) {
    return { files, source: { kind: 'refused', error: noRootDir(settings.root_dir ?? '', settings) }, tree: undefined }
  }
  const { folder } = project
  const root = join(request.into, wrapping)
  const paths = new Set([...content.paths].filter((path) => path.startsWith(wrapping)).map((path) => path.slice(wrapping.length)))
  const tree = { root, paths, folder }
  const generator = await findGenerator(root, paths, folder)
  if (!paths.has(`${folder}package.json`) && !settings.build_command) {
    const isReady = paths.has(`${folder}index.html`)
    if (isReady || generator !== 'hugo') {
      return { files, source: { kind: 'static', output: findStaticOutput(root, folder, paths, settings, generator) }, tree }
    }
  }
  const plan = await planSource(root, paths, folder, settings, generator)
  return { files, source: { kind: 'build', plan, root, folder }, tree }
}
