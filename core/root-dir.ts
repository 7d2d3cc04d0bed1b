import type { BuildSettings } from './build-settings.ts'
import { maxPathBytes } from './limits.ts'
import { judgePath, judgeSourcePath } from './manifest.ts'
import { withoutEnd } from './trim.ts'

/**
 * The folder that wraps the whole source, with a trailing slash, or an empty text: archives are often made one level too high.
 * Files that are never published, such as `.DS_Store`, do not count.
 */
export function wrappingFolder(paths: Iterable<string>): string {
  let wrapping: string | undefined
  for (const path of paths) {
    if (path === 'index.html' || path === 'package.json') return ''
    if (judgePath(path).kind !== 'keep') continue
    const folder = path.slice(0, path.indexOf('/') + 1)
    if (folder === '' || (wrapping !== undefined && wrapping !== folder)) return ''
    wrapping = folder
  }
  return wrapping ?? ''
}

/**
 * Finds the project in a source by the folder of the settings. Undefined when the source has no such folder. A wrapping folder is left
 * out, except in a repository with settings: their commands and folders begin at its root.
 * @returns `wrapping` as {@link wrappingFolder}, and the folder with a trailing slash
 */
export function locateProject(
  paths: ReadonlySet<string>,
  settings: BuildSettings,
): { wrapping: string; folder: string } | undefined {
  const { wrapping } = locateRoot(paths, settings)
  if (settings.root_dir === null) return { wrapping, folder: '' }
  const folder = `${settings.root_dir}/`
  // the wrapping folder may be the one that the settings name
  for (const outer of new Set(['', wrapping])) {
    for (const path of paths) if (path.startsWith(outer + folder)) return { wrapping: outer, folder }
  }
  return undefined
}

/** As {@link locateProject}, for a project at the root. */
export function locateRoot(paths: ReadonlySet<string>, settings: BuildSettings): { wrapping: string; folder: string } {
  const { install_command, build_command, output_dir, is_repository } = settings
  const isExact = is_repository && (install_command ?? build_command ?? output_dir) !== null
  return { wrapping: isExact ? '' : wrappingFolder(paths), folder: '' }
}

/** The folders from this one up to the source's root, each with a trailing slash; the root is empty. */
export function foldersUpwards(folder: string): string[] {
  const folders = [folder]
  for (let at = folder; at !== ''; ) {
    at = at.slice(0, at.slice(0, -1).lastIndexOf('/') + 1)
    folders.push(at)
  }
  return folders
}

/** Parses the folder of a site's settings; the root is null. A text longer than any path is refused before it is parsed. */
export function parseRootDir(text: string): { ok: true; rootDir: string | null } | { ok: false; reason: string } {
  if (text.length > 4 * maxPathBytes) return { ok: false, reason: `is longer than ${maxPathBytes} bytes` }
  const trimmed = withoutEnd(text.trim().replace(/^(\.?\/)+/, ''), '/')
  if (trimmed === '' || trimmed === '.') return { ok: true, rootDir: null }
  const verdict = judgeSourcePath(trimmed)
  if (verdict.kind === 'bad') return { ok: false, reason: verdict.reason }
  if (verdict.kind === 'skip') return { ok: false, reason: 'lies in a folder that is left out of sources' }
  return { ok: true, rootDir: verdict.path }
}
