import { z } from 'zod'
import { acceptGitDeploy, notConnected } from '../../services/git/accept.ts'
import { connectRepository, disconnectRepository, makeSecretOfWebhook } from '../../services/git/connect.ts'
import { findConnection } from '../../services/git/connections.ts'
import { makeDeployHook, removeDeployHook } from '../../services/git/deploy-hooks.ts'
import { newestGitDeploy } from '../../services/git/deploys.ts'
import { operation } from '../operation.ts'
import { connectionInput, readConnection } from '../repository-settings.ts'
import { Deploy, deployView } from '../views/deploy.ts'
import { isoTime, Ok, site_id, time } from '../views/fields.ts'
import { connectionView, GitConnection, webhookUrl } from '../views/git.ts'
import { siteOfCaller } from '../views/site.ts'

const tag = 'Git'

export const get_git = operation({
  id: 'get_git',
  title: 'Get the connected repository',
  summary: 'Gets the repository that a site is deployed from, its webhook and the result of the latest push, without any secret.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/git',
  tool: { readOnly: true },
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
    'Connects a git repository, or replaces the settings of the connection; its webhook and deploy hook stay. Nothing is deployed yet: create a webhook secret next, or deploy now.',
  tag,
  rest: 'PUT /api/v1/sites/{site_id}/git',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({ site_id, ...connectionInput }),
  example: { repo_url: 'https://github.com/ada/notes.git', branch: 'main', build_command: 'npm run build', output_dir: 'dist' },
  load: siteOfCaller,
  output: GitConnection,
  errors: [400, 409],
  handler: async (ctx, input, site) => {
    const { site_id: _, ...given } = input
    const row = await connectRepository(ctx, site, readConnection(ctx, given), input.token)
    return connectionView(ctx.config, row, await newestGitDeploy(ctx.db, site.id, null))
  },
})

export const disconnect_git = operation({
  id: 'disconnect_git',
  title: 'Disconnect the repository',
  summary:
    'Disconnects the repository: its token, webhook and deploy hook are deleted, and its previews end. The live deploy stays.',
  tag,
  rest: 'DELETE /api/v1/sites/{site_id}/git',
  tool: { confirm: true },
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: Ok,
  handler: async (ctx, _input, site) => {
    await disconnectRepository(ctx, site)
    return { ok: true as const }
  },
})

export const deploy_git = operation({
  id: 'deploy_git',
  title: 'Deploy from the repository',
  summary:
    'Deploys the current head of the connected branch. While such a deploy waits, that deploy is returned. Poll get_deploy_status until the status is active or failed.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/git/deploy',
  tool: {},
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: Deploy,
  errors: [402, 409, 429],
  handler: async (ctx, _input, site) => {
    // refuses early, for a fitting message
    if (!(await findConnection(ctx.db, site.id))) throw notConnected()
    const { deploy } = await acceptGitDeploy(ctx, site, { git: null })
    return await deployView(ctx, deploy)
  },
})

export const rotate_git_webhook = operation({
  id: 'rotate_git_webhook',
  title: 'Create a webhook secret',
  summary:
    'Creates a new secret for the webhook, and returns it with the URL to set up at the forge. The secret is shown only once, and replaces the previous one.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/git/webhook',
  tool: { destructive: true },
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: z
    .object({
      url: z.url(),
      secret: z
        .string()
        .describe('The value for the field "secret" or "signing token" of the forge; scripts send it in the header X-Svc-Token.'),
    })
    .meta({ id: 'WebhookSecret' }),
  errors: [409],
  handler: async (ctx, { site_id }, site) => {
    return { url: webhookUrl(ctx.config, site_id), secret: await makeSecretOfWebhook(ctx, site) }
  },
})

export const rotate_deploy_hook = operation({
  id: 'rotate_deploy_hook',
  title: 'Create a deploy hook',
  summary:
    'Creates a secret URL: a POST to it deploys the connected branch, without a key. It is shown only once, and replaces the previous one.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/git/deploy-hook',
  tool: { destructive: true },
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: z.object({ url: z.url(), created_at: time }).meta({ id: 'DeployHook' }),
  errors: [409],
  handler: async (ctx, _input, site) => {
    const { secret, created_at } = await makeDeployHook(ctx, site)
    return { url: `${ctx.config.urls.base}/hooks/deploy/${secret}`, created_at: isoTime(created_at) }
  },
})

export const remove_deploy_hook = operation({
  id: 'remove_deploy_hook',
  title: 'Remove the deploy hook',
  summary: 'Removes the deploy hook of a site. Its URL stops working at once.',
  tag,
  rest: 'DELETE /api/v1/sites/{site_id}/git/deploy-hook',
  tool: { confirm: true },
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: Ok,
  handler: async (ctx, _input, site) => {
    await removeDeployHook(ctx, site)
    return { ok: true as const }
  },
})
