import { AppError } from '../../core/errors.ts'
import { maxArchiveEntries } from '../../core/limits.ts'
import { copiesOfLinks, type LinkedCopy, type LinkKind, linkRefusals, linkTarget } from '../../core/link-targets.ts'
import { judgeSourcePath } from '../../core/manifest.ts'
import { withoutEnd } from '../../core/trim.ts'
import { createSkippedPaths } from './skipped-paths.ts'

/** Limits folders, whose names would fill the memory when each file has 500 of them. */
const maxFolders = maxArchiveEntries
/** Longer names are skipped: they may reach a megabyte, for which patterns would take minutes. */
const longestName = 4096

/**
 * Decides which entries of an archive become files: regular ones with a name of their own inside the tree, and links to such files.
 * Everything else is skipped and listed. The first of two entries with one path wins, and so does the first of `a` and `a/b`; a file wins
 * against a link.
 */
export function createEntryFilter() {
  const skipped = createSkippedPaths()
  const files = new Set<string>()
  const folders = new Set<string>()
  /** The paths that links name, by the paths of the links. */
  const links = new Map<string, string>()

  /** The path to write; undefined when the entry is skipped. */
  function acceptFile(name: string): string | undefined {
    const path = name.length > longestName ? undefined : sourcePath(name)
    if (path === undefined) return skip(name, name.length > longestName ? 'the path is too long' : 'the path is absolute')
    if (files.has(path) || folders.has(path)) return skip(name, 'a second entry with the same path')
    const parents = newParentsOf(path)
    if (parents.some((parent) => files.has(parent))) return skip(name, 'a file has the name of its folder')
    files.add(path)
    for (const parent of parents) folders.add(parent)
    if (folders.size > maxFolders) throw tooManyFolders()
    return path
  }

  /** The new parents of a path, from the nearest one up. Above the first known folder there is no file, so the search ends there. */
  function newParentsOf(path: string): string[] {
    const parents: string[] = []
    for (let at = path.lastIndexOf('/'); at !== -1; at = path.lastIndexOf('/', at - 1)) {
      const parent = path.slice(0, at)
      if (folders.has(parent)) break
      parents.push(parent)
    }
    return parents
  }

  /** Keeps a link until all files are known. */
  function keepLink(name: string, kind: LinkKind, text: string): void {
    const path = name.length > longestName ? undefined : sourcePath(name)
    const target = path === undefined ? undefined : linkTarget(path, kind, text)
    if (path === undefined || target === undefined) skip(name, linkRefusals.outside)
    else if (links.has(path)) skip(name, 'a second entry with the same path')
    else links.set(path, target)
  }

  /** The copies that links stand for, when all files are accepted. */
  function* acceptCopies(): Generator<LinkedCopy> {
    for (const copy of copiesOfLinks(files, links)) {
      if ('reason' in copy) {
        skip(copy.path, copy.reason)
        continue
      }
      const path = acceptFile(copy.path)
      if (path !== undefined) yield { path, from: copy.from }
    }
  }

  /** Ignores an entry for a folder, because folders are created with their files; only a hostile name is listed. */
  function passFolder(name: string): void {
    if (name.length > longestName || isHostileFolder(withoutEnd(name, '/'))) skip(name, 'the path leads out of the archive')
  }

  /** @param why the reason when it is not the name itself */
  function skip(name: string, why: string): undefined {
    skipped.add(withoutDot(name.slice(0, longestName)), why)
  }

  return { acceptFile, keepLink, acceptCopies, passFolder, skip, files, skipped }
}
export type EntryFilter = ReturnType<typeof createEntryFilter>

const tooManyFolders = () =>
  new AppError('conflict', `the source has more than ${maxFolders} folders; leave out what the site does not need`)

/** `tar -C folder .` names its entries `./…`. */
const withoutDot = (name: string) => name.replace(/^(\.\/+)+/, '').replace(/^\.$/, '')

function isHostileFolder(name: string): boolean {
  const bare = withoutDot(name)
  return bare !== '' && (isAbsolute(name) || judgeSourcePath(bare).kind === 'bad')
}

const isAbsolute = (name: string) => name.startsWith('/') || /^[a-z]:/i.test(name)

function sourcePath(name: string): string | undefined {
  const bare = withoutDot(name)
  if (isAbsolute(bare) || isArchiverJunk(bare)) return undefined
  const verdict = judgeSourcePath(bare)
  return verdict.kind === 'keep' ? verdict.path : undefined
}

/** Matches what macOS adds to archives: a parallel tree of resource forks, or `._name` beside `name`. */
const isArchiverJunk = (path: string) => path.split('/').some((segment) => segment === '__MACOSX' || segment.startsWith('._'))
