const serviceNames = new Set(['.git', '.gitignore', '.npmrc', '.ds_store', 'thumbs.db'])

/**
 * Whether a file is left out of every deploy: those of git, of npm, of operating systems, with settings, packages at the root, and below `__svc`,
 * which is the platform's own. Bundlers copy files out of packages to deeper folders called `node_modules`. Compared case-insensitively, because a case-insensitive copy of the tree would merge the names.
 */
export function isServiceFile(path: string): boolean {
  const segments = path.toLowerCase().split('/')
  if (segments[0] === '__svc' || segments[0] === 'node_modules') return true
  return segments.some((segment) => serviceNames.has(segment) || segment.startsWith('.env'))
}
