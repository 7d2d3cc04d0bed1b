import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { seal } from '../../infra/crypto/seal.ts'
import { makeWebhookSecret } from '../../infra/forges/verify.ts'
import { deleteConnection, findConnection, setDeployHook, setWebhookSecret } from '../../services/git/connections.ts'
import { newestGitDeploy } from '../../services/git/deploys.ts'
import { lockProject } from '../../services/projects/projects.ts'
import type { SiteRow } from '../../services/sites/sites.ts'
import { inTrash } from '../accept-deploy.ts'
import { acceptGitDeploy, notConnected } from '../accept-git-deploy.ts'
import { connectionInput, connectRepository, forgetRepository } from '../connect-repository.ts'
import type { Context } from '../context.ts'
import { operation } from '../operation.ts'
import { Deploy, deployView } from '../views/deploy.ts'
import { isoTime, Ok, site_id, time } from '../views/fields.ts'
import { connectionView, GitConnection, webhookUrl } from '../views/git.ts'
import { siteOfCaller } from '../views/site.ts'
import { hashDeployHook } from '../webhooks/git-hooks.ts'

const tag = 'Git'

export const get_git = operation({
  id: 'get_git',
  title: 'Get the connected repository',
  summary: 'The repository that a site is deployed from, its webhook and what came of the latest push; never a secret.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/git',
  scope: 'readonly',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: GitConnection,
  handler: async (ctx, { site_id }) => {
    const [row, newest] = await Promise.all([findConnection(ctx.db, site_id), newestGitDeploy(ctx.db, site_id, null)])
    return row ? connectionView(ctx.config, row, newest) : { connected: false as const }
  },
})

export const connect_git = operation({
  id: 'connect_git',
  title: 'Connect a repository',
  summary:
    'Connects a git repository, or replaces the settings of the connection; its webhook and deploy hook stay. Nothing is deployed yet: make a webhook next, or deploy now.',
  tag,
  rest: 'PUT /api/v1/sites/{site_id}/git',
  scope: 'editor',
  input: z.object({ site_id, ...connectionInput }),
  example: { repo_url: 'https://github.com/ada/notes.git', branch: 'main', build_command: 'npm run build', output_dir: 'dist' },
  load: siteOfCaller,
  output: GitConnection,
  errors: [400, 409],
  handler: async (ctx, input, site) => {
    const row = await connectRepository(ctx, site, input)
    ctx.log.info({ site_id: site.id }, 'repository connected')
    return connectionView(ctx.config, row, await newestGitDeploy(ctx.db, site.id, null))
  },
})

export const disconnect_git = operation({
  id: 'disconnect_git',
  title: 'Disconnect the repository',
  summary: 'Forgets the repository with its token, webhook and deploy hook, and ends its previews; what is live stays.',
  tag,
  rest: 'DELETE /api/v1/sites/{site_id}/git',
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: Ok,
  handler: async (ctx, { site_id }, { project_id }) => {
    const disconnected = await ctx.db.transaction().execute(async (tx) => {
      await lockProject(tx, project_id)
      const deleted = await deleteConnection(tx, project_id, site_id)
      if (deleted) await forgetRepository(tx, { site_id, project_id }, ctx.clock())
      return deleted
    })
    if (disconnected) ctx.log.info({ site_id }, 'repository disconnected')
    return { ok: true as const }
  },
})

export const deploy_git = operation({
  id: 'deploy_git',
  title: 'Deploy from the repository',
  summary:
    'Deploys what the connected branch is at now. While such a deploy waits, the answer is that one. Poll get_deploy_status until the status is active or failed.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/git/deploy',
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: Deploy,
  errors: [402, 409, 429],
  handler: async (ctx, _input, site) => {
    await requireConnection(ctx, site)
    const { deploy } = await acceptGitDeploy(ctx, site, { git: null })
    return await deployView(ctx, deploy)
  },
})

/** An early refusal, for a message that fits. */
async function requireConnection(ctx: Context, site: SiteRow): Promise<void> {
  if (site.deletion_scheduled_at) throw inTrash()
  if (!(await findConnection(ctx.db, site.id))) throw notConnected()
}

export const rotate_git_webhook = operation({
  id: 'rotate_git_webhook',
  title: 'Make a webhook secret',
  summary:
    'Answers the address and a new secret of the webhook to set up at the forge. The secret is shown this once, and the former one proves nothing any more.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/git/webhook',
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: z
    .object({
      url: z.url(),
      secret: z
        .string()
        .describe('For the field "secret" or "signing token" of the forge; scripts send it in the header X-Svc-Token.'),
    })
    .meta({ id: 'WebhookSecret' }),
  errors: [409],
  handler: async (ctx, { site_id }, site) => {
    if (site.deletion_scheduled_at) throw inTrash()
    const secret = makeWebhookSecret()
    const sealed = seal(ctx.keyring, secret, { table: 'git_connections', id: site_id, column: 'webhook_secret_sealed' })
    if (!(await setWebhookSecret(ctx.db, site.project_id, site_id, { sealed, now: ctx.clock() }))) throw notConnected()
    ctx.log.info({ site_id }, 'webhook secret made')
    return { url: webhookUrl(ctx.config, site_id), secret }
  },
})

export const rotate_deploy_hook = operation({
  id: 'rotate_deploy_hook',
  title: 'Make a deploy hook',
  summary:
    'Answers a secret address: a POST there deploys the connected branch, without a key. It is shown this once, and the former one ends.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/git/deploy-hook',
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: z.object({ url: z.url(), created_at: time }).meta({ id: 'DeployHook' }),
  errors: [409],
  handler: async (ctx, { site_id }, site) => {
    if (site.deletion_scheduled_at) throw inTrash()
    const secret = randomBytes(32).toString('base64url')
    const now = ctx.clock()
    const hook = { sha256: hashDeployHook(secret), now }
    if (!(await setDeployHook(ctx.db, site.project_id, site_id, hook))) throw notConnected()
    ctx.log.info({ site_id }, 'deploy hook made')
    return { url: `${ctx.config.urls.base}/hooks/deploy/${secret}`, created_at: isoTime(now) }
  },
})

export const remove_deploy_hook = operation({
  id: 'remove_deploy_hook',
  title: 'Remove the deploy hook',
  summary: 'Ends the deploy hook of a site; its address is unknown from then on.',
  tag,
  rest: 'DELETE /api/v1/sites/{site_id}/git/deploy-hook',
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: Ok,
  handler: async (ctx, { site_id }, { project_id }) => {
    await setDeployHook(ctx.db, project_id, site_id, null)
    ctx.log.info({ site_id }, 'deploy hook removed')
    return { ok: true as const }
  },
})
