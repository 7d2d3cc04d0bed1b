import { isIP } from 'node:net'
import { z } from 'zod'
import { invalid } from '../core/errors.ts'
import { branchProblem, isPrivateName, judgeRepoUrl } from '../core/git-remotes.ts'
import { maxWatchPaths } from '../core/limits.ts'
import type { Config } from '../infra/config.ts'
import { isPublicAddress } from '../infra/net/public-address.ts'
import { command, folder, readBuildSettings } from './build-settings.ts'
import type { Deps } from './context.ts'

const maxPathLength = 300

/** One line of text. */
function line(minLength: number, maxLength: number) {
  const form = new RegExp(`^\\P{Cc}{${minLength},${maxLength}}$`, 'u')
  return z
    .string()
    .refine((text) => text.isWellFormed() && form.test(text), `must be one line of ${minLength} to ${maxLength} characters`)
    .meta({ minLength, maxLength, pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$' })
}

/** The settings of a connection. All but the token and the branch are replaced by each call. */
export const connectionInput = {
  repo_url: z
    .string()
    .meta({ minLength: 1, maxLength: 2048, pattern: '^https?://[^\\s/@?#\\\\]+/[^\\s?#\\\\]+$' })
    .describe('The https address that `git clone` takes, without a user or a token.'),
  branch: z
    .string()
    .meta({ minLength: 1, maxLength: 255 })
    .optional()
    .describe(
      'The branch whose deploys go live. Without it, a connection to the same repository keeps its branch, and a new one gets the default branch of the repository, or main when the repository cannot be reached.',
    ),
  token: z
    .string()
    .regex(/^[\x21-\x7e]{1,2000}$/, 'must be 1 to 2000 printable characters without spaces')
    .nullable()
    .optional()
    .describe('The access token, for a private repository and for reports to its forge; kept when absent, erased by null.'),
  install_command: command.default(null).describe('Replaces the install command; null or empty means that of the site.'),
  build_command: command.default(null).describe('Replaces the build command; null or empty means that of the site.'),
  output_dir: folder.default(null).describe('The folder that is published; null or empty means that of the site.'),
  root_dir: folder.default(null).describe('The folder that is built, such as apps/web; null or empty means that of the site.'),
  branch_previews: z.boolean().default(false).describe('Whether other branches get a preview.'),
  pull_request_previews: z.boolean().default(true).describe('Whether pull requests get a preview.'),
  watch_paths: z
    .array(line(1, maxPathLength))
    .max(maxWatchPaths)
    .default([])
    .describe(
      'Patterns such as `docs/**` and `!docs/drafts/**`: pushes that change no matching file are skipped. Without patterns every push counts.',
    ),
}

/**
 * Validates and normalises the settings of a connection.
 * @throws AppError `invalid`
 */
export function readConnection({ config }: Deps, input: z.output<z.ZodObject<typeof connectionInput>>) {
  const { token: _, ...settings } = input
  return {
    ...settings,
    repo_url: readRepoUrl(config, input.repo_url),
    branch: input.branch === undefined ? undefined : readBranch(input.branch),
    ...readBuildSettings(input),
  }
}

function readRepoUrl({ git }: Config, text: string): string {
  const verdict = judgeRepoUrl(text, git)
  if (verdict.kind === 'bad') throw invalid(`repo_url ${verdict.reason}`)
  const host = new URL(verdict.url).hostname.replace(/^\[|\]$/g, '')
  const isPrivate = isIP(host) ? !isPublicAddress(host) : isPrivateName(host)
  if (isPrivate && !git.allowPrivate)
    throw invalid(
      'repo_url leads into a private network; use the public address of the repository, or ask the operator to set PLINTH_ALLOW_PRIVATE_GIT',
    )
  return verdict.url
}

function readBranch(name: string): string {
  const problem = branchProblem(name)
  if (problem !== undefined) throw invalid(`branch ${problem}`)
  return name
}
