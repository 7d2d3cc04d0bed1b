import { constants, existsSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import { AppError } from '../../core/errors.ts'
import { copiesOfLinks, linkRefusals, linkTarget } from '../../core/link-targets.ts'
import { judgePath, type ManifestEntry } from '../../core/manifest.ts'
import type { ObjectBatch } from '../../infra/cas/cas.ts'
import { compressByPath } from '../../infra/cas/published-files.ts'
import { createTaskGroup } from '../../infra/task-group.ts'
import type { ListedEntry } from './list-folder.ts'

export interface CollectOptions {
  /** Gets the files. */
  readonly objects: ObjectBatch
  /** The folder, made by the runner, that `root` has to lie in without passing a link. */
  readonly source: string
  readonly maxFiles: number
  /** Bytes of all paths together. */
  readonly maxPathBytes: number
  /** Bytes of all files together. */
  readonly maxBytes: number
  /** The refusal of an artifact with more than `maxBytes`. */
  readonly overMaxBytes: string
  /** As the function of that name, in a thread that may be ended. */
  readonly listFolder: (folder: string, prefix: string, maxFiles: number) => Promise<ListedEntry[]>
  /** Gets the name of what is not published: a link out of the tree, a device, a service file. */
  readonly skip: (name: string, why: string) => Promise<void>
  readonly signal: AbortSignal
}

const storesAtOnce = 8
const maxDepth = 128
const smallBytes = 256 * 1024

/** A file with several names. */
interface SharedFile {
  /** All of its names, wherever they are. */
  readonly nlink: number
  readonly names: FileName[]
}

interface FileName {
  /** Where it is on the disk. */
  readonly file: string
  /** Where it is published. */
  readonly path: string
  /** Its name in the tree, before it was normalised. */
  readonly name: string
}

/**
 * Adds the regular files below `root` to the batch and returns them sorted, with copies in the place of links to them. The tree is hostile:
 * every folder and file is opened through its parent's descriptor without following links, and links are resolved by their texts alone. A file
 * with several names is taken when all of them are below `root`: otherwise it may be one of somewhere else.
 * @throws AppError `conflict` for too many files, bytes or bytes of paths, and for a `root` that is a link or lies behind one
 */
export async function collectFiles(root: string, options: CollectOptions): Promise<ManifestEntry[]> {
  const { objects, listFolder, skip, signal } = options
  const files = new Map<string, ManifestEntry>()
  const taken = new Set<string>()
  const links = new Map<string, string>()
  const shared = new Map<string, SharedFile>()
  let sharedNames = 0
  const stores = createTaskGroup(storesAtOnce)
  let bytes = 0
  let pathBytes = 0

  try {
    await using folder = await openBelow(options.source, root)
    await walk(folder, root, '', 0)
    for (const file of shared.values()) await takeShared(file)
  } finally {
    await stores.settled()
  }
  await stores.finished()
  await copyLinked()
  return [...files.values()].sort((a, b) => (a.path < b.path ? -1 : 1))

  async function walk(folder: FileHandle, path: string, prefix: string, depth: number): Promise<void> {
    const here = descriptorPath(folder, path)
    for (const entry of await listFolder(here, prefix, options.maxFiles + 1)) {
      signal.throwIfAborted()
      const name = prefix + entry.name
      if (entry.path !== undefined) {
        if (entry.link === undefined) await take(join(here, entry.name), { file: join(path, entry.name), path: entry.path, name })
        else await keepLink(entry.path, entry.link, name)
        continue
      }
      await using inner = depth < maxDepth ? await openReal(join(here, entry.name), openFolder) : undefined
      if (inner) await walk(inner, join(path, entry.name), `${name}/`, depth + 1)
      else await skip(`${name}/`, 'a folder that is nested too deep, or cannot be opened')
    }
  }

  async function keepLink(path: string, text: string, name: string): Promise<void> {
    const target = linkTarget(path, 'symbolic', text)
    if (target === undefined) return await skip(name, linkRefusals.outside)
    if (taken.has(path) || links.has(path)) return await skip(name, 'a second file with the same path')
    links.set(path, target)
    if (links.size > options.maxFiles) throw tooManyFiles()
  }

  /** @param at the file by the descriptor of its folder */
  async function take(at: string, file: FileName): Promise<void> {
    if (taken.has(file.path)) return await skip(file.name, 'a second file with the same path')
    await stores.room()
    const opened = await openReal(at, openFile)
    const stats = await opened?.stat()
    if (!opened || !stats?.isFile()) {
      await opened?.close()
      return await skip(file.name, 'a file that cannot be opened')
    }
    if (stats.nlink > 1) {
      await opened.close()
      return keepShared(`${stats.dev}:${stats.ino}`, stats.nlink, file)
    }
    try {
      count(file.path)
    } catch (error) {
      await opened.close()
      throw error
    }
    stores.add(store(opened, stats.size, [file.path]))
  }

  function keepShared(inode: string, nlink: number, name: FileName): void {
    const known = shared.get(inode) ?? { nlink, names: [] }
    known.names.push(name)
    shared.set(inode, known)
    if (++sharedNames > options.maxFiles) throw tooManyFiles()
  }

  async function takeShared({ nlink, names }: SharedFile): Promise<void> {
    const [first] = names
    await using folder = first && names.length === nlink ? await openBelow(options.source, dirname(first.file)) : undefined
    const opened =
      first && folder && (await openReal(join(descriptorPath(folder, dirname(first.file)), basename(first.file)), openFile))
    const stats = await opened?.stat()
    if (!opened || !stats?.isFile() || stats.nlink !== nlink) {
      await opened?.close()
      for (const { name } of names) await skip(name, 'a second name of a file outside of what is published')
      return
    }
    await using file = opened
    for (const { path } of names) count(path)
    await store(
      file,
      stats.size,
      names.map(({ path }) => path),
    )
  }

  async function copyLinked(): Promise<void> {
    for (const copy of copiesOfLinks(files.keys(), links)) {
      const original = 'from' in copy ? files.get(copy.from) : undefined
      if ('reason' in copy || !original) await skip(copy.path, 'reason' in copy ? copy.reason : linkRefusals.missing)
      else if (taken.has(copy.path)) await skip(copy.path, 'a second file with the same path')
      else if (judgePath(copy.path).kind !== 'keep') await skip(copy.path, 'its path cannot be published')
      else {
        count(copy.path)
        addBytes(original.size)
        files.set(copy.path, { ...original, path: copy.path })
      }
    }
  }

  /** @throws AppError `conflict` */
  function count(path: string): void {
    taken.add(path)
    if (taken.size > options.maxFiles) throw tooManyFiles()
    pathBytes += Buffer.byteLength(path)
    if (pathBytes <= options.maxPathBytes) return
    throw new AppError(
      'conflict',
      `the paths of the files to publish have more than ${options.maxPathBytes} bytes together; shorten the names of files and folders`,
    )
  }

  function tooManyFiles(): AppError {
    return new AppError('conflict', `there are more than ${options.maxFiles} files to publish; publish fewer, larger ones`)
  }

  function addBytes(more: number): void {
    bytes += more
    if (bytes > options.maxBytes) throw new AppError('conflict', options.overMaxBytes)
  }

  /** Stores a file under all of its paths. */
  async function store(file: FileHandle, size: number, paths: readonly string[]): Promise<void> {
    await using opened = file
    const [first = ''] = paths
    addBytes(size * paths.length)
    const stored = await objects.add(
      (await readSmall(file, size)) ?? opened.createReadStream({ autoClose: false, start: 0 }),
      compressByPath(first),
    )
    for (const path of paths) files.set(path, { path, ...stored })
  }
}

/** Undefined when the file is large, or shorter than it was. What the storage has already is then known without writing it. */
async function readSmall(file: FileHandle, size: number): Promise<Buffer | undefined> {
  if (size > smallBytes) return undefined
  const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(size), 0, size, 0)
  return bytesRead === size ? buffer : undefined
}

const openFolder = (path: string) => open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
// a pipe in the place of a file would block the open without O_NONBLOCK
const openFile = (path: string) => open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)

/** One folder after the other, as a build may have put a link in the place of any of them. */
async function openBelow(top: string, root: string): Promise<FileHandle> {
  let folder = await openFolder(top)
  let path = top
  for (const segment of relative(top, root).split('/').filter(Boolean)) {
    await using parent = folder
    const inner = segment === '..' ? undefined : await openReal(join(descriptorPath(parent, path), segment), openFolder)
    if (!inner)
      throw new AppError('conflict', `${relative(top, root)} is a link, not a folder of the build; publish a real folder`)
    folder = inner
    path = join(path, segment)
  }
  return folder
}

/** Undefined when the entry has become something else, or may not be read. */
async function openReal(path: string, opener: (path: string) => Promise<FileHandle>): Promise<FileHandle | undefined> {
  try {
    return await opener(path)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? ''
    if (['ELOOP', 'ENOTDIR', 'ENOENT', 'EACCES', 'ENXIO', 'EMLINK'].includes(code)) return undefined
    throw error
  }
}

const hasDescriptors = existsSync('/proc/self/fd')

/** The folder by its descriptor: it stays the one that was checked, whatever its path comes to mean. */
const descriptorPath = (folder: FileHandle, path: string) => (hasDescriptors ? `/proc/self/fd/${folder.fd}` : path)
