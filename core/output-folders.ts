import { type BuildSettings, ownerOf } from './build-settings.ts'
import { type FrameworkName, getFramework } from './frameworks.ts'

/** The usual output folders of builds, in the specification's order: the first that the build wrote to is published. */
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

/** What is known of a build that has nothing to publish in the usual output folders. */
export interface BuildTraces {
  /** The folders that the build created beside package.json. */
  readonly written: readonly string[]
  /** The folder of the index.html that the build wrote elsewhere; empty when it lies beside package.json. */
  readonly indexFolder: string | undefined
  readonly framework: FrameworkName | undefined
  /** Whether the build left the server of its framework. */
  readonly hasServer: boolean
}

/** @param stale the first usual output folder that is there, when the build wrote to none of them */
export function noOutputFolder(traces: BuildTraces, stale: OutputFolder | undefined, settings: BuildSettings) {
  const advice = adviceFor(traces)
  const lack = stale ? `it wrote nothing to ${stale}/` : 'it wrote none of the usual output folders'
  if (advice) return `The build finished, but ${lack}. ${advice}`
  return `the build wrote none of the folders ${outputFolders.join(', ')}; make it write one of them, with index.html in it, or name its folder in output_dir of ${ownerOf(settings, 'output_dir')}${writtenInstead(traces.written)}`
}

export function noOutputIndex(folder: OutputFolder, traces: BuildTraces) {
  const advice = adviceFor(traces)
  if (advice) return `The build finished, but ${folder}/ has no index.html. ${advice}`
  return `${folder} has no index.html; did the build write elsewhere?${writtenInstead(traces.written.filter((name) => name !== folder))}`
}

/** A server shows what is wrong; without one, a page that the build wrote is a better sign than the framework's usual settings. */
function adviceFor({ indexFolder, framework, hasServer }: BuildTraces): string | undefined {
  const ofFramework = framework && getFramework(framework).advice
  if (ofFramework && hasServer) return ofFramework
  if (indexFolder === '') return 'Found index.html beside package.json: write the site to a folder of its own, such as dist.'
  if (indexFolder !== undefined) return `Found ${indexFolder}/index.html: set output_dir to ${indexFolder}.`
  return ofFramework
}

/** The refusal for the output folder of the settings. `written` is undefined when nothing was built. */
export const noOutputDir = (folder: string, written: readonly string[] | undefined, settings: BuildSettings) => {
  const owner = ownerOf(settings, 'output_dir')
  const who = written ? 'the build wrote' : `the ${settings.is_repository ? 'repository' : 'source'} has`
  return `${who} no folder ${quoted(folder)}, which ${owner} names as output_dir; change output_dir of ${owner}${writtenInstead(written ?? [])}`
}

/** As {@link noOutputDir}. */
export const noIndexInOutputDir = (folder: string, written: readonly string[] | undefined, settings: BuildSettings) => {
  const owner = ownerOf(settings, 'output_dir')
  return `${quoted(folder)}, the output_dir of ${owner}, has no index.html; change output_dir of ${owner}${writtenInstead((written ?? []).filter((name) => name !== folder))}`
}

const shownFolders = 10

function writtenInstead(folders: readonly string[]): string {
  if (folders.length === 0) return ''
  const shown = folders.slice(0, shownFolders).map((name) => JSON.stringify(name.slice(0, 100)).slice(1, -1))
  return ` (it wrote ${shown.join(', ')}${folders.length > shownFolders ? ', …' : ''})`
}

const quoted = (folder: string) => JSON.stringify(folder)
