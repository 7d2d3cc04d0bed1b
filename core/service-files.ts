const serviceNames = new Set(['.git', '.gitignore', '.npmrc', '.ds_store', 'thumbs.db', 'node_modules'])

/**
 * Whether a file is left out of every deploy: those of git, of npm, of operating systems, with settings, and below `__svc`, which is the
 * platform's own. Compared case-insensitively, because a case-insensitive copy of the tree would merge the names.
 */
export function isServiceFile(path: string): boolean {
  const segments = path.toLowerCase().split('/')
  if (segments[0] === '__svc') return true
  return segments.some((segment) => serviceNames.has(segment) || segment.startsWith('.env'))
}
