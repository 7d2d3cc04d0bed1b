import Router from '@koa/router'
import { z } from 'zod'
import { notFound } from '../../core/errors.ts'
import { readBuildVariables } from '../../services/builds/variables.ts'
import { bearerToken, createWrongAttempts, sameSecret, unauthorized } from '../authenticate.ts'
import { clientNetwork } from '../client-network.ts'
import type { Deps } from '../context.ts'

const wrongPerMinute = 10

const runOfQuery = z.object({
  deploy_id: z.uuid(),
  attempt: z.coerce.number().int().min(0).max(1_000_000_000),
  run_id: z.string().min(1).max(200),
})

/** The route of runners, which have no database: the variables of a build, while it holds its permit. */
export function runnerRoutes(deps: Deps & { readonly runnerToken: string }): Router {
  const countWrong = createWrongAttempts(wrongPerMinute, 'too many wrong tokens of runners; wait a minute')
  const router = new Router({ strict: true, sensitive: true })

  router.get('/internal/builds/:deploy_id/variables', async (koa) => {
    const given = bearerToken(koa.get('authorization') || undefined)
    if (given === undefined || !sameSecret(given, deps.runnerToken)) {
      countWrong(clientNetwork(koa.req))
      throw unauthorized('this is not the token of a runner')
    }
    const run = runOfQuery.safeParse({ ...koa.query, deploy_id: koa.params.deploy_id })
    if (!run.success) throw notFound('there is no such build')
    koa.body = await readBuildVariables(deps, run.data)
  })
  return router
}
