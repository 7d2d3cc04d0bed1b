import { z } from 'zod'
import { type BuildSettingName, buildSettingNames } from '../core/build-settings.ts'
import { maxIgnorePatternLength, maxIgnorePatterns, refusalOfPattern } from '../core/ignore-patterns.ts'
import { maxPathBytes } from '../core/limits.ts'
import { maxCommandLength, parseBuildSetting } from '../core/parse-build-settings.ts'
import { isUtf16, notUtf8 } from '../core/source-texts.ts'

const about: Readonly<Record<BuildSettingName, { readonly maxLength: number; readonly description: string }>> = {
  install_command: { maxLength: maxCommandLength, description: 'The shell command that installs packages.' },
  build_command: { maxLength: maxCommandLength, description: 'The shell command that builds.' },
  output_dir: { maxLength: maxPathBytes, description: 'The folder that is published, within root_dir.' },
  root_dir: { maxLength: maxPathBytes, description: 'The folder that is built; only in plinth.json at the root of the source.' },
  node_version: { maxLength: 40, description: 'The version of Node, such as "22".' },
}

/** An empty text becomes null. */
const setting = (name: BuildSettingName) =>
  z
    .string(`must be text`)
    .transform((text, context) => {
      const parsed = parseBuildSetting(name, text)
      if (parsed.ok) return parsed.value
      context.addIssue({ code: 'custom', message: parsed.reason })
      return z.NEVER
    })
    .optional()
    .meta(about[name])

const pattern = z
  .string('must be text')
  .superRefine((text, context) => {
    const refusal = refusalOfPattern(text)
    if (refusal) context.addIssue({ code: 'custom', message: refusal })
  })
  .meta({ maxLength: maxIgnorePatternLength, pattern: '^[^\\\\\\[\\]\\u0000-\\u001f\\u007f-\\u009f]*$' })

const plinthFile = z
  .strictObject({
    $schema: z.string('must be text').optional(),
    build: z
      .strictObject(
        Object.fromEntries(buildSettingNames.map((name) => [name, setting(name)])) as Record<
          BuildSettingName,
          ReturnType<typeof setting>
        >,
      )
      .optional()
      .meta({
        description: 'How the source is built; a member wins over the same setting of the site and of its git connection.',
      }),
    ignore: z
      .array(pattern, 'must be a list')
      .max(maxIgnorePatterns, `has more than ${maxIgnorePatterns} patterns`)
      .optional()
      .meta({ description: 'Patterns as in .gitignore, without brackets and backslashes: what they match is not published.' }),
  })
  .meta({ title: 'plinth.json' })

/** The JSON schema of `plinth.json`, for editors. */
export const plinthFileSchema = () => z.toJSONSchema(plinthFile, { io: 'input' })

export type PlinthFile = z.output<typeof plinthFile>

const maxShownLength = 300

/** Parses `plinth.json`; `error` says what is wrong with it. */
export function parsePlinthFile(text: string): { readonly file: PlinthFile } | { readonly error: string } {
  let content: unknown
  try {
    content = JSON.parse(text.replace(/^\uFEFF/, ''))
  } catch (error) {
    if (isUtf16(text)) return { error: notUtf8('plinth.json') }
    return { error: `plinth.json is not valid JSON (${(error as Error).message})` }
  }
  const parsed = plinthFile.safeParse(content)
  if (parsed.success) return { file: parsed.data }
  const { path, message } = parsed.error.issues[0] ?? { path: [], message: '' }
  return { error: `plinth.json is not valid: ${`${path.join('.')} ${message}`.trim().slice(0, maxShownLength).toWellFormed()}` }
}
