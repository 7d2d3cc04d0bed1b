import { deflateSync } from 'node:zlib'
import { readCommit, readTree, type TreeEntry } from 'isomorphic-git'
import { GitError } from './git-error.ts'
import { isFromGit, printable } from './resolve.ts'
import type { Unpacked } from './unpack.ts'

export interface Commit {
  readonly oid: string
  /** The first line of its message. */
  readonly message: string
  readonly author: string
  readonly committed_at: Date
  readonly tree: string
}

export interface ObjectStore {
  readonly commit: (oid: string) => Promise<Commit>
  readonly tree: (oid: string) => Promise<readonly TreeEntry[]>
  readonly blob: (oid: string) => Buffer
}

/**
 * Commits, trees and blobs. isomorphic-git parses them, and refuses names that git would not check out; it sees the objects as loose
 * files of a virtual repository, so no name of an untrusted repository becomes a path.
 * Its functions throw a GitError.
 */
export function openObjectStore(objects: Unpacked): ObjectStore {
  const at = { fs: looseFiles(objects), dir: '/git', gitdir: '/git', cache: {} }
  return {
    async commit(oid) {
      const { commit } = await understood(readCommit({ ...at, oid }))
      const seconds = Math.min(Math.max(Math.trunc(commit.committer.timestamp) || 0, 0), latestSeconds)
      return {
        oid,
        message: printable(commit.message.split('\n', 1)[0] ?? ''),
        author: printable(commit.author.name),
        committed_at: new Date(seconds * 1000),
        tree: commit.tree,
      }
    },
    tree: async (oid) => (await understood(readTree({ ...at, oid }))).tree,
    blob(oid) {
      const object = objects.read(oid)
      if (object?.type !== 'blob') throw damaged('NotFoundError')
      return object.bytes
    },
  }
}

// in the year 2242, the last one that fits into a tar header
const latestSeconds = 8 ** 11 - 1

async function understood<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading
  } catch (error) {
    if (!isFromGit(error) && !(error instanceof RangeError) && !(error instanceof TypeError)) throw error
    const { code, data } = error as Error & { code?: string; data?: { filepath?: unknown } }
    if (code === 'UnsafeFilepathError') {
      const name = printable(String(data?.filepath))
      throw new GitError(
        'unsafe_path',
        `the repository has a file or folder named ${name}, which git would not check out; rename it`,
      )
    }
    throw damaged(code ?? (error as Error).message)
  }
}

const damaged = (why: string) => new GitError('damaged', `the git server sent objects that cannot be read (${why}); try again`)

/** The part of a file system that isomorphic-git needs to read loose objects. */
function looseFiles(objects: Unpacked) {
  const absent = (path: string) => Object.assign(new Error(`ENOENT: ${path}`), { code: 'ENOENT' })
  const refuse = (path: string) => Promise.reject(absent(path))
  return {
    promises: {
      async readFile(path: string) {
        const [, first, rest] = /\/objects\/([0-9a-f]{2})\/([0-9a-f]{38})$/.exec(path) ?? []
        const object = objects.read(`${first}${rest}`)
        if (!object) throw absent(path)
        return deflateSync(Buffer.concat([Buffer.from(`${object.type} ${object.bytes.length}\0`), object.bytes]), { level: 0 })
      },
      readdir: refuse,
      stat: refuse,
      lstat: refuse,
      readlink: refuse,
      writeFile: refuse,
      mkdir: refuse,
      rmdir: refuse,
      unlink: refuse,
      symlink: refuse,
    },
  }
}
