import type { GitEvent, Push } from '../git-events.ts'

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The member of a payload at a path; undefined when there is none, or null. */
export function field(value: unknown, ...path: readonly string[]): unknown {
  const found = path.reduce((at, key) => (isRecord(at) && Object.hasOwn(at, key) ? at[key] : undefined), value)
  return found ?? undefined
}

export function text(value: unknown, ...path: readonly string[]): string | undefined {
  const found = field(value, ...path)
  return typeof found === 'string' && found !== '' ? found : undefined
}

export function list(value: unknown, ...path: readonly string[]): readonly unknown[] {
  const found = field(value, ...path)
  return Array.isArray(found) ? found : []
}

export const isTrue = (value: unknown, ...path: readonly string[]) => field(value, ...path) === true

// PostgreSQL takes no NUL, and nobody reads more
const cut = (value: string | undefined, length: number) => value?.replaceAll('\0', '').slice(0, length).toWellFormed()

/** For names and titles. */
export const short = (value: string | undefined) => cut(value, 300)
/** For messages of commits. */
export const long = (value: string | undefined) => cut(value, 10_000)
/** The name in `Ada <ada@example.com>`. */
export function nameOf(author: string | undefined): string | undefined {
  const line = author?.trimEnd() ?? ''
  const email = line.lastIndexOf('<')
  const isAtEnd = email >= 0 && line.indexOf('>', email) === line.length - 1
  return short(isAtEnd ? line.slice(0, email).trimEnd() : author)
}

export const ignored = (reason: string): GitEvent => ({ kind: 'ignored', reason })
export const nothingFollows = (event: string) => ignored(`nothing follows from the event ${short(event)}`)
export const notOfBranch = ignored('it is not of a branch')

/** The branch of a full ref; undefined for a tag or any other ref. */
export function branchOf(ref: string | undefined): string | undefined {
  if (ref === undefined || !ref.startsWith('refs/')) return ref
  return ref.startsWith('refs/heads/') ? ref.slice('refs/heads/'.length) : undefined
}

const zeros = /^0+$/

/** Undefined for the zeros that stand for no commit. */
export const commitOf = (hash: string | undefined) => (hash === undefined || zeros.test(hash) ? undefined : hash)

/** A push that changes more is not compared with patterns: it is built. */
const maxChangedFiles = 10_000

/**
 * The files of a payload's commits; undefined when they are too many or not all that the push has changed.
 * @param isWhole whether these commits are all that the push has changed
 */
export function changedFiles(commits: readonly unknown[], isWhole: boolean): Push['changed_files'] {
  if (!isWhole || commits.length === 0) return undefined
  const files = new Set<string>()
  for (const commit of commits) {
    for (const file of ['added', 'modified', 'removed'].flatMap((how) => list(commit, how))) {
      if (typeof file === 'string') files.add(file)
      if (files.size > maxChangedFiles) return undefined
    }
  }
  return [...files]
}
