import { counted } from './amounts.ts'
import { judgeSourcePath } from './manifest.ts'
import { isServiceFile } from './service-files.ts'

/** A path that was left out. The reason is empty on the last one of a long list, which counts those that are not listed. */
export interface SkippedPath {
  readonly path: string
  readonly reason: string
}

/** The reason for what is neither a regular file nor a link. */
export const notRegular = 'a special file'

const shownPaths = 10

/** Why a path of a source is left out, when the path itself is the reason. */
export function reasonOfPath(path: string): string | undefined {
  const bare = path.replace(/\/$/, '')
  const segments = bare.split('/')
  if (segments.includes('node_modules')) return 'installed packages are not taken from the source'
  if (segments.includes('.git')) return 'repositories are not published'
  if (segments.some((segment) => segment === '__MACOSX' || segment.startsWith('._'))) return 'added by macOS'
  const verdict = judgeSourcePath(bare)
  if (verdict.kind === 'bad') return `the path ${verdict.reason}`
  return isServiceFile(bare) ? 'files of this name are never published' : undefined
}

/** Lines for the log of a build: the paths that were left out, by reason, the first ten of each. */
export function skippedLines(skipped: readonly SkippedPath[]): string[] {
  return Object.entries(Object.groupBy(skipped, ({ reason }) => reason)).map(([reason, group = []]) => {
    const paths = group.map(({ path }) => path)
    if (reason === '') return `left out ${paths.join(', ').replace('… and ', '')}`
    const more = paths.length > shownPaths ? ` and ${paths.length - shownPaths} more` : ''
    return `left out ${counted(paths.length, 'path')} (${reason}): ${paths.slice(0, shownPaths).join(', ')}${more}`
  })
}
