import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type BuildSettings, overrideSettings } from '../../core/build-settings.ts'

const name = 'plinth.json'
const maxBytes = 64 * 1024

export type OwnSettingsReading =
  | { readonly settings: BuildSettings; readonly ignore: readonly string[] }
  | { readonly error: string }

/**
 * Reads `plinth.json` of a source, from the folder that is built or else from the root, and lets it override the settings.
 * @param paths the paths of all files below `root`
 * @param folder the folder to build, with a trailing slash; the root is empty
 */
export async function readOwnSettings(
  root: string,
  paths: ReadonlySet<string>,
  folder: string,
  settings: BuildSettings,
): Promise<OwnSettingsReading> {
  const at = [folder, ''].find((at) => paths.has(at + name))
  if (at === undefined) return { settings, ignore: [] }
  const path = join(root, at, name)
  if ((await stat(path)).size > maxBytes) return { error: `${name} is larger than 64 KB; shorten it and deploy again` }
  // few sources have one, and zod takes a while to load
  const { parsePlinthFile } = await import('../../infra/plinth-file.ts')
  const parsed = parsePlinthFile(await readFile(path, 'utf8'))
  if ('error' in parsed) return { error: `${parsed.error}; correct it and deploy again` }
  const { build = {}, ignore = [] } = parsed.file
  if (at !== '' && build.root_dir) return { error: `${at}${name} names a root_dir; move it to ${name} at the root of the source` }
  return { settings: overrideSettings(settings, name, build), ignore }
}
