import { z } from 'zod'
import { cancelDeploy } from '../../services/builds/cancel.ts'
import { retryStoredDeploy } from '../../services/deploys/retry.ts'
import { retryGitDeploy } from '../../services/git/retry.ts'
import { operation } from '../operation.ts'
import { Deploy, deployOfCaller, deployView } from '../views/deploy.ts'
import { deploy_id } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'

const tag = 'Deploys'

export const cancel_deploy = operation({
  id: 'cancel_deploy',
  title: 'Cancel a deploy',
  summary:
    'Cancels a deploy that is queued or building: its status is failed at once, and its build ends within seconds. The log stays, and the minutes that the build took are charged.',
  tag,
  rest: 'POST /api/v1/deploys/{deploy_id}/cancel',
  tool: {},
  scope: 'editor',
  input: z.object({ deploy_id }),
  load: deployOfCaller,
  output: Deploy,
  errors: [409],
  handler: async (ctx, _input, deploy) => await deployView(ctx, await cancelDeploy(ctx, deploy, ctx.caller.key)),
})

export const retry_deploy = operation({
  id: 'retry_deploy',
  title: 'Retry a deploy',
  summary:
    'Deploys the same source again, as a new deploy: the same commit of a git deploy, the same files, or the archive of a failed deploy. Archives of failed deploys are kept for 7 days, the newest three of a site.',
  tag,
  rest: 'POST /api/v1/deploys/{deploy_id}/retry',
  tool: {},
  scope: 'editor',
  input: z.object({ deploy_id }),
  load: deployOfCaller,
  whenSuspended: 'refuse',
  output: Deploy,
  errors: [402, 409, 429, 503],
  handler: async (ctx, _input, deploy) => {
    const site = await siteOfCaller(ctx, deploy)
    const retry = deploy.source_kind === 'git' ? retryGitDeploy : retryStoredDeploy
    return await deployView(ctx, await retry(ctx, site, deploy))
  },
})
