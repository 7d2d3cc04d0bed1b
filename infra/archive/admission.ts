import { judgeSourcePath } from '../../core/manifest.ts'
import { createSkippedPaths } from './skipped-paths.ts'

/** No path of this length is kept; names reach a megabyte, which patterns would take minutes for. */
const longestName = 4096

/**
 * Decides which entries of an archive become files: regular ones with a name of their own inside the tree.
 * Everything else is skipped and listed. The first of two entries with one path wins, and so does the first of `a` and `a/b`.
 */
export function createAdmission() {
  const skipped = createSkippedPaths()
  const files = new Set<string>()
  const folders = new Set<string>()

  /** The path to write; undefined when the entry is skipped. */
  function admitFile(name: string): string | undefined {
    const path = name.length > longestName ? undefined : sourcePath(name)
    if (path === undefined || files.has(path) || folders.has(path)) return skip(name)
    const parents = parentsOf(path)
    if (parents.some((parent) => files.has(parent))) return skip(name)
    files.add(path)
    for (const parent of parents) folders.add(parent)
    return path
  }

  /** Folders come into being with their files; only a hostile name is worth a line. */
  function passFolder(name: string): void {
    if (name.length > longestName || isHostileFolder(name.replace(/\/+$/, ''))) skip(name)
  }

  function skip(name: string): undefined {
    skipped.add(withoutDot(name.slice(0, longestName)))
  }

  return { admitFile, passFolder, skip, files, skipped }
}
export type Admission = ReturnType<typeof createAdmission>

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

/** What macOS adds to archives: a twin tree of resource forks, or `._name` beside `name`. */
const isArchiverJunk = (path: string) => path.split('/').some((segment) => segment === '__MACOSX' || segment.startsWith('._'))

function parentsOf(path: string): string[] {
  const parents: string[] = []
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1)) parents.push(path.slice(0, at))
  return parents
}
