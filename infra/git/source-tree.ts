import type { TreeEntry } from 'isomorphic-git'
import { judgeSourcePath } from '../../core/manifest.ts'
import { createEntryFilter } from '../archive/entry-filter.ts'
import type { TarFile } from '../archive/write-tar.ts'
import { GitError } from './git-error.ts'
import type { GitLimits } from './limits.ts'
import type { ObjectStore } from './object-store.ts'
import { printable } from './resolve.ts'

/** Walks a tree and yields its regular files, one after the other. Links are skipped and listed, never followed. */
export function openSourceTree(store: ObjectStore, { maxFiles, maxBytes }: Pick<GitLimits, 'maxFiles' | 'maxBytes'>) {
  const filter = createEntryFilter()
  let entries = 0
  let bytes = 0

  async function* folder(oid: string, prefix: string): AsyncGenerator<TarFile> {
    for (const entry of await store.tree(oid)) {
      entries += 1
      if (entries > maxFiles) throw new GitError('too_many_files', `the repository has more than ${maxFiles} files and folders`)
      const path = `${prefix}${entry.path}`
      if (kindOf(entry) === 'folder') {
        // a folder that is left out as a whole is not even read
        if (judgeSourcePath(path).kind === 'keep') yield* folder(entry.oid, `${path}/`)
        else filter.skip(`${path}/`, 'the path cannot be published')
      } else {
        const file = await fileOf(entry, path)
        if (file) yield file
      }
    }
  }

  async function fileOf(entry: TreeEntry, path: string): Promise<TarFile | undefined> {
    const kind = kindOf(entry)
    if (kind === 'submodule') throw submodule(path)
    const kept = kind === 'file' ? filter.acceptFile(path) : filter.skip(path, 'a link')
    if (kept === undefined) return undefined
    const content = store.blob(entry.oid)
    bytes += content.length
    if (bytes > maxBytes) {
      throw new GitError(
        'too_large',
        `the repository is too large: its files have more than ${Math.round(maxBytes / 1024 / 1024)} MB`,
      )
    }
    if (isLfsPointer(content)) throw largeFileStorage(path)
    return { path: kept, executable: (Number.parseInt(entry.mode, 8) & 0o111) !== 0, bytes: content }
  }

  return {
    files: (tree: string) => folder(tree, ''),
    facts: () => ({ files: filter.files.size, bytes, skipped: filter.skipped.list() }),
  }
}

function kindOf({ mode }: TreeEntry): 'file' | 'folder' | 'link' | 'submodule' {
  if (mode.endsWith('40000')) return 'folder'
  if (mode === '160000') return 'submodule'
  return mode.startsWith('100') ? 'file' : 'link'
}

const lfsVersion = 'version https://git-lfs.github.com/spec/'
const longestPointer = 1024

const isLfsPointer = (content: Uint8Array) =>
  content.length < longestPointer &&
  Buffer.from(content.buffer, content.byteOffset, content.length).toString('latin1', 0, lfsVersion.length) === lfsVersion

const submodule = (path: string) =>
  new GitError(
    'submodule',
    `${printable(path)} is a submodule (see .gitmodules), and submodules are not fetched; put its files into this repository, or upload the site as an archive from your CI`,
  )

const largeFileStorage = (path: string) =>
  new GitError(
    'lfs',
    `${printable(path)} is kept in Git LFS, which is not supported: the repository holds a pointer instead of the file; add the file itself (git lfs migrate export), or upload the site as an archive from your CI`,
  )
