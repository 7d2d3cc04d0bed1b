import { type TrustLevel, trustOf } from '../../core/build-trust.ts'
import { conflict, notFound } from '../../core/errors.ts'
import type { VariableContext } from '../../core/variables.ts'
import { previewOrigin, siteUrl } from '../../infra/config.ts'
import type { DeployRun } from '../deploys/runs.ts'
import { firstGeneration } from '../previews/links.ts'
import type { Services } from '../services.ts'
import { readVariables } from '../sites/variables.ts'

/** The variables of the build step of one build, and which of the values are secrets. */
export interface BuildVariables {
  readonly values: Readonly<Record<string, string>>
  readonly secrets: readonly string[]
}

/**
 * The variables for a build that holds its permit. Forks get none of the site.
 * @throws AppError `not_found` when the run does not own a build with a permit; `conflict` when a value cannot be opened
 */
export async function readBuildVariables(services: Services, run: DeployRun): Promise<BuildVariables> {
  const build = await findPermittedBuild(services, run)
  if (!build) throw notFound('this attempt does not build the deploy')
  const trust = trustOf(build)
  const context: VariableContext = trust === 'production' ? 'production' : 'preview'
  const all = trust === 'fork' ? [] : await readVariables(services, build.site_id)
  const variables = all.filter(({ contexts }) => contexts.includes(context))
  const sealed = variables.find(({ value }) => value === undefined)
  if (sealed)
    throw conflict(`the variable ${sealed.name} cannot be read, because the secret key of the server has changed; set it again`)
  const url = trust === 'production' ? siteUrl(services.config, build.subdomain) : urlOfPreview(services, build, trust)
  const provided = {
    ...providedOf(build),
    PLINTH_DEPLOY_ID: run.deploy_id,
    PLINTH_CONTEXT: context,
    ...(url && { PLINTH_URL: url }),
  }
  return {
    values: { ...Object.fromEntries(variables.map(({ name, value }) => [name, value ?? ''])), ...provided },
    secrets: variables.flatMap(({ secret, value }) => (secret && value ? [value] : [])),
  }
}

/**
 * Where the branch preview will be seen: its link, which is issued when its first build is ready. Undefined for other previews, whose links
 * are made later by a call, and for forks, whose authors may be strangers to those who have the link.
 */
function urlOfPreview({ config, previewTokens }: Services, build: PermittedBuild, trust: TrustLevel): string | undefined {
  const { git_preview_id, link_generation } = build
  if (trust === 'fork' || git_preview_id === null) return undefined
  return previewOrigin(config, previewTokens(git_preview_id, link_generation ?? firstGeneration))
}

type PermittedBuild = NonNullable<Awaited<ReturnType<typeof findPermittedBuild>>>

function providedOf({ subdomain, branch, git }: PermittedBuild) {
  const ref = branch ?? git?.ref
  return {
    CI: 'true',
    PLINTH: '1',
    PLINTH_SITE: subdomain,
    ...(git && ref && { PLINTH_BRANCH: ref, PLINTH_COMMIT: git.commit }),
  }
}

function findPermittedBuild({ db }: Services, { deploy_id, attempt, run_id }: DeployRun) {
  return db
    .selectFrom('deploys')
    .innerJoin('sites', 'sites.id', 'deploys.site_id')
    .leftJoin('git_previews as preview', 'preview.id', 'deploys.git_preview_id')
    .select(['deploys.site_id', 'deploys.source_kind', 'deploys.activate', 'deploys.git', 'sites.subdomain'])
    .leftJoin('preview_links as link', 'link.git_preview_id', 'preview.id')
    .select(['preview.id as git_preview_id', 'preview.from_fork', 'preview.branch', 'link.generation as link_generation'])
    .where('deploys.id', '=', deploy_id)
    .where('deploys.attempt', '=', attempt)
    .where('deploys.run_id', '=', run_id)
    .where('deploys.status', 'in', ['queued', 'building'])
    .where('deploys.turn_at', 'is not', null)
    .where('deploys.source_sha256', 'is not', null)
    .executeTakeFirst()
}
