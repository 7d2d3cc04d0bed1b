import { reasonOfPath, type SkippedPath } from '../../core/skipped-paths.ts'

const listedPerFolder = 20
const listedInAll = 500
const shownCharacters = 256

/** Folders whose content is left out as a whole, possibly thousands of files. */
const leftOutFolder = /^(.*?\/)?(\.git|node_modules|__MACOSX|__svc)\//i

/**
 * Collects paths that were left out, small enough for a database row and safe to print. Of a folder such as
 * `node_modules` the first 20 paths are listed and the rest as `node_modules/**`; after 500 lines one line says how many more.
 */
export function createSkippedPaths() {
  const listed = new Map<string, string>()
  const perFolder = new Map<string, number>()
  let more = 0

  function add(path: string, reasonFor: () => string): void {
    const shown = printable(path)
    const folder = leftOutFolder.exec(shown)?.[0]
    const count = folder ? (perFolder.get(folder) ?? 0) + 1 : 0
    if (folder) perFolder.set(folder, count)
    const line = folder && count > listedPerFolder ? `${folder}**` : shown
    if (listed.has(line)) return
    if (listed.size < listedInAll) listed.set(line, reasonFor())
    else more += 1
  }

  return {
    /** @param why the reason when it is not the path itself */
    add: (path: string, why: string): void => add(path, () => reasonOfPath(path) ?? why),
    /** Adds a path that another list has. */
    addListed: ({ path, reason }: SkippedPath): void => add(path, () => reason),
    list(): SkippedPath[] {
      const paths = Array.from(listed, ([path, reason]) => ({ path, reason }))
      return more > 0 ? [...paths, { path: `… and ${more} more`, reason: '' }] : paths
    },
  }
}
export type SkippedPaths = ReturnType<typeof createSkippedPaths>

/** A path, which may be hostile, as it is shown: cut, and without control characters. */
export function printable(path: string): string {
  // cut first, because paths can be thousands of characters long
  const clean = path
    .slice(0, shownCharacters)
    .toWellFormed()
    .replace(/\p{Cc}/gu, '\ufffd')
  return path.length > shownCharacters ? `${clean}…` : clean
}
