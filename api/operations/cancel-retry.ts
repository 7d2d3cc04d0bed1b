import { z } from 'zod'
import { cancelDeploy } from '../../services/builds/cancel.ts'
import { operation } from '../operation.ts'
import { Deploy, deployOfCaller, deployView } from '../views/deploy.ts'
import { deploy_id } from '../views/fields.ts'

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
