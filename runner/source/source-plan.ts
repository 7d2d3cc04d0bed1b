import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import {
  type Command,
  enginesOf,
  frameworkOf,
  type LockFile,
  lockFiles,
  type NodeMajor,
  type PackageManager,
  planBuild,
} from '../../core/build-plan.ts'
import { type BuildSettings, ownerOf } from '../../core/build-settings.ts'
import type { FrameworkName } from '../../core/frameworks.ts'
import {
  chooseHugo,
  type Generator,
  generatorOf,
  type HugoRelease,
  type HugoRequest,
  hugoVersionFiles,
  hugoVersionIn,
  runsHugo,
  runsPython,
  usualMkdocs,
} from '../../core/generators.ts'
import { foldersUpwards } from '../../core/root-dir.ts'
import { chooseNode, type NodeRequest } from './node-version.ts'

export type SourcePlan =
  | {
      readonly kind: 'build'
      readonly node: NodeMajor
      readonly packageManager: PackageManager
      /** Undefined when there is nothing to install. */
      readonly install: Command | undefined
      /** The folder of the lock file, where it runs, with a trailing slash; the root is empty. */
      readonly installFolder: string
      readonly build: Command
      /** The framework that package.json names. */
      readonly framework: FrameworkName | undefined
      /** Undefined when the build does not need Hugo. */
      readonly hugo: HugoRelease | undefined
      /** Whether the install and the build are those of a Python project. */
      readonly needsPython: boolean
      /** A line for the log about the tools that were chosen. */
      readonly note: string | undefined
      /** Both are undefined without a lock file that decides the install. */
      readonly lockName: string | undefined
      readonly lockSha256: string | undefined
    }
  | { readonly kind: 'refused'; readonly error: string }

const MiB = 1024 * 1024
/** Lock files name their format in the first lines, after comments. */
const headBytes = 64 * 1024

/**
 * Reads the files that decide how a source is built. They come from the archive: nothing has run yet that could have replaced them.
 * @param paths the paths of all files below `root`
 * @param folder the folder to build, with a trailing slash; the root is empty
 * @param generator the one that the folder is made for
 */
export async function planSource(
  root: string,
  paths: ReadonlySet<string>,
  folder: string,
  settings: BuildSettings,
  generator?: Generator,
): Promise<SourcePlan> {
  for (const at of foldersUpwards(folder)) {
    const file = `${at}package.json`
    if (paths.has(file) && (await stat(join(root, file))).size > MiB)
      return { kind: 'refused', error: `${file} is larger than 1 MB; that is no package description` }
  }
  const hasPackage = paths.has(`${folder}package.json`)
  const packageJson = hasPackage ? await readFile(join(root, folder, 'package.json'), 'utf8') : undefined
  const lock = hasPackage ? findLock(paths, folder) : undefined
  const isOwnBuild = settings.build_command !== null && !runsPython(settings.build_command)
  const needsPython = generator === 'mkdocs' && !hasPackage && !isOwnBuild
  const command = commandOf(needsPython || generator === 'hugo' ? generator : undefined)
  const plan = planBuild(packageJson, lock && (await openLock(root, lock)), settings, command)
  if (plan.kind === 'refused') return plan
  const node = chooseNode(requestOf(settings) ?? (await findNodeRequest(root, paths, folder)))
  if (node.kind === 'refused') return node
  const { isUsualInstall, buildText, ...commands } = plan
  const needsHugo = generator === 'hugo' || runsHugo(buildText)
  const hugo = needsHugo ? chooseHugo(await findHugoRequest(root, paths, folder)) : undefined
  if (hugo?.kind === 'refused') return hugo
  const deciding = isUsualInstall ? lock : undefined
  const requirements = needsPython ? await readRequirements(root, paths, folder) : undefined
  return {
    ...commands,
    install: commands.install ?? requirements?.install,
    needsPython,
    node: node.major,
    framework: packageJson === undefined ? undefined : frameworkOf(packageJson),
    hugo: hugo?.release,
    note: hugo?.note,
    installFolder: deciding?.folder ?? folder,
    lockName: deciding?.name,
    lockSha256: deciding ? await sha256Of(join(root, deciding.folder, deciding.name)) : requirements?.sha256,
  }
}

function commandOf(generator: Generator | undefined): Command | undefined {
  if (generator === 'hugo') return ['hugo']
  return generator === 'mkdocs' ? ['mkdocs', 'build'] : undefined
}

/** The usual install of a Python project, and a hash of what it installs. */
async function readRequirements(root: string, paths: ReadonlySet<string>, folder: string) {
  const file = 'requirements.txt'
  if (paths.has(folder + file)) {
    return { install: ['pip', 'install', '-r', file] as const, sha256: await sha256Of(join(root, folder, file)) }
  }
  return { install: ['pip', 'install', usualMkdocs] as const, sha256: createHash('sha256').update(usualMkdocs).digest('hex') }
}

interface FoundLock extends Pick<LockFile, 'name'> {
  readonly folder: string
}

/** Finds the nearest one upwards: packages of a workspace share that of its root. */
function findLock(paths: ReadonlySet<string>, from: string): FoundLock | undefined {
  for (const folder of foldersUpwards(from)) {
    const name = lockFiles.find((file) => paths.has(folder + file))
    if (name) return { folder, name }
  }
  return undefined
}

async function openLock(root: string, { folder, name }: FoundLock): Promise<LockFile> {
  return { name, head: await readHead(join(root, folder, name)) }
}

function requestOf(settings: BuildSettings): NodeRequest | undefined {
  const text = settings.node_version
  return text === null ? undefined : { file: `node_version of ${ownerOf(settings, 'node_version')}`, text }
}

/** The files for version managers come before package.json, and the nearest before those above. */
async function findNodeRequest(root: string, paths: ReadonlySet<string>, from: string): Promise<NodeRequest | undefined> {
  const folders = foldersUpwards(from)
  for (const file of ['.nvmrc', '.node-version']) {
    const folder = folders.find((folder) => paths.has(folder + file))
    if (folder !== undefined) return { file, text: await readHead(join(root, folder, file)) }
  }
  for (const folder of folders) {
    if (!paths.has(`${folder}package.json`)) continue
    const text = enginesOf(await readFile(join(root, folder, 'package.json'), 'utf8'))
    if (text !== undefined) return { file: 'package.json (engines.node)', text }
  }
  return undefined
}

async function findHugoRequest(root: string, paths: ReadonlySet<string>, from: string): Promise<HugoRequest | undefined> {
  for (const folder of foldersUpwards(from)) {
    for (const file of hugoVersionFiles) {
      const request = paths.has(folder + file) ? hugoVersionIn(file, await readHead(join(root, folder, file))) : undefined
      if (request) return request
    }
  }
  return undefined
}

/** The generator that a folder is made for. */
export async function findGenerator(root: string, paths: ReadonlySet<string>, folder: string): Promise<Generator | undefined> {
  return await generatorOf(
    (path) => paths.has(folder + path),
    (path) => readHead(join(root, folder, path)),
  )
}

async function readHead(path: string): Promise<string> {
  await using file = await open(path)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(headBytes), 0, headBytes, 0)
  return buffer.toString('utf8', 0, bytesRead).replace(/^\uFEFF/, '')
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}
