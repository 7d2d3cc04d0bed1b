import type { BuildSettings } from './build-plan.ts'

/** The usual output folders of builds, in the specification's order: the first that exists is published. */
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

/** @param written the folders that the build created, as a hint */
export const noOutputFolder = (written: readonly string[], settings?: BuildSettings) =>
  `the build wrote none of the folders ${outputFolders.join(', ')}; make it write one of them, with index.html in it${settings ? ', or name its folder in output_dir of the git connection' : ''}${writtenInstead(written)}`

/** @param written the folders that the build created, as a hint */
export const noOutputIndex = (folder: string, written: readonly string[]) =>
  `${folder} has no index.html; did the build write elsewhere?${writtenInstead(written.filter((name) => name !== folder))}`

/** The refusal for the output folder of a git connection. `written` is undefined when nothing was built. */
export const noOutputDir = (folder: string, written: readonly string[] | undefined) =>
  `${written ? 'the build wrote' : 'the repository has'} no folder ${quoted(folder)}, which the git connection names as output_dir; change output_dir of the git connection${writtenInstead(written ?? [])}`

/** As {@link noOutputDir}. */
export const noIndexInOutputDir = (folder: string, written: readonly string[] | undefined) =>
  `${quoted(folder)}, the output_dir of the git connection, has no index.html; change output_dir of the git connection${writtenInstead((written ?? []).filter((name) => name !== folder))}`

const shownFolders = 10

function writtenInstead(folders: readonly string[]): string {
  if (folders.length === 0) return ''
  const shown = folders.slice(0, shownFolders).map((name) => JSON.stringify(name.slice(0, 100)).slice(1, -1))
  return ` (it wrote ${shown.join(', ')}${folders.length > shownFolders ? ', …' : ''})`
}

const quoted = (folder: string) => JSON.stringify(folder)
