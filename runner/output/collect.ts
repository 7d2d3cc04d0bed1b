import { constants, existsSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { AppError } from '../../core/errors.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
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
  /** Gets the name of what is not published: a link, a device, a service file. */
  readonly skip: (name: string, why: string) => Promise<void>
  readonly signal: AbortSignal
}

const storesAtOnce = 8
const maxDepth = 128
const smallBytes = 256 * 1024

/**
 * Adds the regular files below `root` to the batch and returns them sorted. The tree is hostile: every folder and file is opened
 * through its parent's descriptor without following links, and a file with a second name is not taken, as it may be the
 * other side of a link to somewhere else.
 * @throws AppError `conflict` for too many files, bytes or bytes of paths, and for a `root` that is a link or lies behind one
 */
export async function collectFiles(root: string, options: CollectOptions): Promise<ManifestEntry[]> {
  const { objects, listFolder, skip, signal } = options
  const files = new Map<string, ManifestEntry>()
  const taken = new Set<string>()
  const stores = createTaskGroup(storesAtOnce)
  let bytes = 0
  let pathBytes = 0

  try {
    await using folder = await openBelow(options.source, root)
    await walk(folder, root, '', 0)
  } finally {
    await stores.settled()
  }
  await stores.finished()
  return [...files.values()].sort((a, b) => (a.path < b.path ? -1 : 1))

  async function walk(folder: FileHandle, path: string, prefix: string, depth: number): Promise<void> {
    const here = descriptorPath(folder, path)
    for (const entry of await listFolder(here, prefix, options.maxFiles + 1)) {
      signal.throwIfAborted()
      if (entry.path !== undefined) {
        await take(join(here, entry.name), entry.path, prefix + entry.name)
        continue
      }
      await using inner = depth < maxDepth ? await openReal(join(here, entry.name), openFolder) : undefined
      const name = `${prefix}${entry.name}/`
      if (inner) await walk(inner, join(path, entry.name), name, depth + 1)
      else await skip(name, 'a folder that is nested too deep, or cannot be opened')
    }
  }

  /** @param name that it has in the tree, before it was normalised */
  async function take(file: string, path: string, name: string): Promise<void> {
    if (taken.has(path)) return await skip(name, 'a second file with the same path')
    await stores.room()
    const opened = await openReal(file, openFile)
    const stats = await opened?.stat()
    if (!opened || !stats?.isFile() || stats.nlink > 1) {
      await opened?.close()
      return await skip(name, 'a link, or a second name of a file')
    }
    taken.add(path)
    if (taken.size > options.maxFiles) {
      await opened.close()
      throw new AppError('conflict', `there are more than ${options.maxFiles} files to publish; publish fewer, larger ones`)
    }
    pathBytes += Buffer.byteLength(path)
    if (pathBytes > options.maxPathBytes) {
      await opened.close()
      throw new AppError(
        'conflict',
        `the paths of the files to publish have more than ${options.maxPathBytes} bytes together; shorten the names of files and folders`,
      )
    }
    stores.add(store(opened, stats.size, path))
  }

  async function store(file: FileHandle, size: number, path: string): Promise<void> {
    await using opened = file
    bytes += size
    if (bytes > options.maxBytes) throw new AppError('conflict', options.overMaxBytes)
    const stored = await objects.add(
      (await readSmall(file, size)) ?? opened.createReadStream({ autoClose: false, start: 0 }),
      compressByPath(path),
    )
    files.set(path, { path, ...stored })
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
