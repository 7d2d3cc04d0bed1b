import { z } from 'zod'
import { conflict, invalid } from '../../core/errors.ts'
import { maxManifestEntries } from '../../core/limits.ts'
import { parseRequestPath, type RequestTarget } from '../../core/request-path.ts'
import { maxAddedHeaderBytes } from '../../core/site-rules/merge-headers.ts'
import { maxRuleLines } from '../../core/site-rules/rules.ts'
import { type DeployRow, findDeploy } from '../../services/deploys/deploys.ts'
import { explainPath } from '../../services/deploys/explain.ts'
import { requireFiles } from '../../services/deploys/files.ts'
import type { SiteRow } from '../../services/sites/sites.ts'
import type { Context } from '../context.ts'
import { operation } from '../operation.ts'
import { writtenBy } from '../views/authors.ts'
import { noSuchDeploy } from '../views/deploy.ts'
import { deploy_id, site_id } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'

const maxPathLength = 2000

const foreign = writtenBy('sources', z.string())

const PathExplanation = z
  .object({
    deploy_id: z.uuid().describe('The deploy whose answer this is.'),
    status: z.int(),
    location: writtenBy('sources', z.string().nullable().describe('Where the answer redirects to.')),
    file: writtenBy('sources', z.string().nullable().describe('The file that answers.')),
    headers: z
      .array(z.object({ name: foreign, value: foreign, lines: z.array(z.int()).max(maxRuleLines) }))
      .max(maxAddedHeaderBytes)
      .describe('The headers that _headers sets, with the lines of their paths.'),
    rule: z
      .object({ file: z.enum(['_redirects', '_headers']), line: z.int(), text: foreign })
      .nullable()
      .describe('The line that decides; null when the rules that hold for every site do.'),
    explanation: writtenBy('sources', z.string().describe('Why, in one sentence.')),
  })
  .meta({ id: 'PathExplanation' })

export const explain_path = operation({
  id: 'explain_path',
  title: 'Explain a path',
  summary:
    'Explains what visitors get at a path of a site: the status, the target of a redirect or the file, the headers of _headers, and the line of _redirects that decides. Locks and the state of the site are left aside.',
  tag: 'Sites',
  rest: 'GET /api/v1/sites/{site_id}/explain',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({
    site_id,
    path: z
      .string()
      .max(maxPathLength)
      .meta({ minLength: 1, pattern: '^/' })
      .describe('A path with its query, such as /old/page?id=7.'),
    deploy_id: deploy_id.optional().describe('The deploy to ask; by default the live one.'),
  }),
  load: siteOfCaller,
  output: PathExplanation,
  errors: [400, 409, 429, 503],
  handler: async (ctx, { path, deploy_id }, site) => {
    const target = readTarget(path)
    const deploy = await deployOf(ctx, site, deploy_id)
    const manifest = requireFiles(deploy)
    const explain = async () => ({
      deploy_id: deploy.id,
      ...(await explainPath(ctx, manifest, target, site.canonical_urls)),
    })
    const isLarge = (deploy.file_count ?? 0) > maxManifestEntries
    return isLarge ? await ctx.admission.runLarge(ctx.caller.project_id, explain) : await explain()
  },
})

/** People write paths as they read them, so what a browser escapes is escaped. @throws AppError `invalid` */
function readTarget(path: string): RequestTarget {
  const escaped = path.toWellFormed().replace(/[^\x21-\x7e]+/g, encodeURIComponent)
  const target = path.startsWith('/') ? parseRequestPath(escaped) : undefined
  if (!target) throw invalid('path must be the path of a request, such as /old/page?id=7: no host, no fragment, valid escapes')
  return target
}

/** @throws AppError `not_found`; `conflict` when no deploy is live */
async function deployOf(ctx: Context, site: SiteRow, id: string | undefined): Promise<DeployRow> {
  const wanted = id ?? site.active_deploy_id
  if (wanted === null) throw conflict('the site has no live deploy; deploy first, or name a deploy_id', 'wrong_status')
  const deploy = await findDeploy(ctx.db, ctx.caller.project_id, wanted)
  if (deploy?.site_id !== site.id) throw noSuchDeploy()
  return deploy
}
