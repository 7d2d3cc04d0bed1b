import { judgePath } from './manifest.ts'

/** Where builds write, in the specification's order: the first that exists is published. */
export const outputFolders = [
  'dist',
  'build',
  'out',
  '.vitepress/dist',
  '.output/public',
  '_site',
  'public',
  'site',
  'storybook-static',
] as const
export type OutputFolder = (typeof outputFolders)[number]

export type Command = readonly [program: string, ...args: string[]]

export type BuildPlan =
  | { readonly kind: 'build'; readonly install: Command; readonly build: Command }
  /** The source cannot be built; `error` says what to change. */
  | { readonly kind: 'refused'; readonly error: string }

/**
 * What to run for a source with this `package.json`.
 * @param rootFiles names of the files beside it
 */
export function planBuild(packageJson: string, rootFiles: ReadonlySet<string>): BuildPlan {
  const refused = (error: string) => ({ kind: 'refused', error }) as const
  let parsed: unknown
  try {
    parsed = JSON.parse(packageJson.replace(/^\uFEFF/, ''))
  } catch (error) {
    return refused(`package.json is not valid JSON (${(error as Error).message}); mend it and deploy again`)
  }
  if (!isRecord(parsed)) return refused('package.json is not a JSON object; mend it and deploy again')
  const script = isRecord(parsed.scripts) ? parsed.scripts.build : undefined
  if (typeof script !== 'string' || script.trim() === '') {
    return refused(
      'package.json has no "build" script: add one to "scripts" (for example "build": "vite build"), or leave package.json out of the archive to publish the files as they are',
    )
  }
  const locked = rootFiles.has('package-lock.json') || rootFiles.has('npm-shrinkwrap.json')
  return { kind: 'build', install: ['npm', locked ? 'ci' : 'install'], build: ['npm', 'run', 'build'] }
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const noOutputFolder = `the build wrote none of the folders ${outputFolders.join(', ')}; make it write one of them, with index.html in it`

export const noOutputIndex = (folder: OutputFolder) => `${folder} has no index.html; did the build write elsewhere?`

export const noStaticIndex =
  'the archive has no index.html at its root; pack the folder that holds index.html, or add a package.json with a "build" script to have it built'

/**
 * The folder that wraps a whole source, with a slash at its end, or nothing: archives are often made one level too high.
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
