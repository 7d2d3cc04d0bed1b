import { z } from 'zod'
import { type BuildSettingName, buildSettingNames, type OwnSettings } from '../core/build-settings.ts'
import { invalid } from '../core/errors.ts'
import { maxPathBytes } from '../core/limits.ts'
import { isCommand, maxCommandLength, parseBuildSetting } from '../core/parse-build-settings.ts'

const oneLine = `must be one line of 0 to ${maxCommandLength} characters`

export const command = z
  .string()
  .refine(isCommand, oneLine)
  .meta({ maxLength: maxCommandLength, pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$' })
  .nullable()
// an invalid folder or version is a 400, not a 422
export const folder = z.string().meta({ maxLength: maxPathBytes }).nullable()
const version = z.string().meta({ maxLength: 40 }).nullable()

/** The build settings of a site; an absent one stays. */
export const siteBuildSettings = {
  install_command: command
    .optional()
    .describe('The shell command that installs packages; null or empty means the one that fits the lock file.'),
  build_command: command
    .optional()
    .describe(
      'The shell command that builds; null or empty means the script "build" of package.json. With it, a source without package.json is built too.',
    ),
  output_dir: folder
    .optional()
    .describe('The folder that is published, within root_dir; null or empty means the first of the usual output folders.'),
  root_dir: folder
    .optional()
    .describe('The folder of this site when one repository has several sites, such as apps/web; null or empty means the root.'),
  node_version: version
    .optional()
    .describe('The version of Node, such as 22; null or empty means the one that the source asks for, else 20.'),
}

/**
 * Validates and normalises the given build settings; an undefined one stays undefined.
 * @throws AppError `invalid`
 */
export function readBuildSettings<Input extends OwnSettings>(input: Input) {
  const given = buildSettingNames.filter((name) => input[name] !== undefined)
  return Object.fromEntries(given.map((name) => [name, readSetting(name, input[name] ?? '')])) as {
    [Name in BuildSettingName & keyof Input]: string | null | Extract<Input[Name], undefined>
  }
}

function readSetting(name: BuildSettingName, text: string): string | null {
  const parsed = parseBuildSetting(name, text)
  if (!parsed.ok) throw invalid(`${name} ${parsed.reason}`)
  return parsed.value
}
