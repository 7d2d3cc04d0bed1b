import { createHash } from 'node:crypto'
import Router from '@koa/router'
import type { Context as Koa } from 'koa'
import { z } from 'zod'
import { AppError, invalid, notFound } from '../../core/errors.ts'
import { forgeOf, parseDelivery, payloadOf } from '../../core/git-push.ts'
import { maxHookBodyBytes } from '../../core/limits.ts'
import { open, SealError } from '../../infra/crypto/seal.ts'
import {
  findConnectionOfDeployHook,
  findHookedConnection,
  type HookedConnection,
  saveDelivery,
  saveRefusedDelivery,
  touchDeployHook,
} from '../../infra/db/git-connections.ts'
import { verifyDelivery } from '../../infra/forges/verify.ts'
import { acceptGitDeploy } from '../accept-git-deploy.ts'
import { unauthorized } from '../authenticate.ts'
import type { Deps } from '../context.ts'
import { noHookedSite, siteOf, type Taken, takeEvents } from './git-events.ts'
import { createReceiver } from './receive-body.ts'

const refusalPauseMs = 1000
const maxResultLength = 1000
const bodyLimits = { maxBytes: maxHookBodyBytes, maxHeldBytes: 24 * maxHookBodyBytes, patienceMs: 30_000 }

/** What forges and other services call without a key: who may is proved by a signature, or by knowing the address. */
export function gitHooks(deps: Deps): Router {
  const receive = createReceiver(bodyLimits)
  const router = new Router({ strict: true, sensitive: true })

  router.post('/hooks/git/:site_id', async (koa) => {
    const siteId = z.uuid().safeParse(koa.params.site_id)
    const connection = siteId.success ? await findHookedConnection(deps.db, siteId.data) : undefined
    if (!connection) throw noHookedSite()
    koa.body = await takeDelivery(deps, connection, koa, await receive(koa))
  })

  router.post('/hooks/deploy/:secret', async (koa) => {
    const sha256 = hashDeployHook(koa.params.secret ?? '')
    const connection = await findConnectionOfDeployHook(deps.db, sha256)
    if (!connection) throw unknownDeployHook()
    await receive(koa)
    koa.body = await deployByHook(deps, connection, sha256)
  })
  return router
}

/** Of a request that may carry the secret of a deploy hook in its path, what a log may hold. */
export const loggedPath = (path: string) => (/^\/+hooks/i.test(path) && !/^\/hooks\/git\/[^/]*$/.test(path) ? '/hooks/…' : path)

export const hashDeployHook = (secret: string) => createHash('sha256').update(secret).digest('hex')
const unknownDeployHook = () => notFound('there is no deploy hook at this address; make one for the site')

async function takeDelivery(deps: Deps, connection: HookedConnection, koa: Koa, raw: Buffer) {
  const { headers } = koa.req
  const { site_id } = connection
  const now = deps.clock()
  const sender = forgeOf(headers)
  const seen = { at: now.toISOString(), forge: sender?.forge ?? 'generic', event: (sender?.event ?? '').slice(0, 100) } as const

  const verdict = verifyDelivery({ headers, raw, secret: webhookSecret(deps, connection), now })
  if (!verdict.ok) {
    const refused = { ...seen, result: `refused: ${verdict.reason}` }
    await saveRefusedDelivery(deps.db, site_id, refused, new Date(now.getTime() - refusalPauseMs))
    deps.log.debug({ site_id, forge: seen.forge }, 'webhook refused')
    throw unauthorized(verdict.reason)
  }
  const note = (result: string) => saveDelivery(deps.db, site_id, { ...seen, result })
  // reports need to know who speaks
  if (connection.forge === null) await note('received')
  try {
    const delivery = parseDelivery(headers, readPayload(koa, raw))
    const taken = await takeEvents(deps, connection, delivery, verdict.delivery_id)
    await note(taken.map(toldOf).join(', ').slice(0, maxResultLength))
    return answerOf(taken)
  } catch (error) {
    if (error instanceof AppError) await note(`refused: ${error.message}`)
    throw error
  }
}

/** Empty when none proves anything. */
function webhookSecret({ keyring }: Deps, { site_id, webhook_secret_sealed }: HookedConnection): string {
  if (webhook_secret_sealed === null) return ''
  try {
    return open(keyring, webhook_secret_sealed, { table: 'git_connections', id: site_id, column: 'webhook_secret_sealed' })
  } catch (error) {
    // of an earlier secret key: the owner has to make another one
    if (error instanceof SealError) return ''
    throw error
  }
}

function readPayload(koa: Koa, raw: Buffer): unknown {
  const payload = payloadOf(koa.req.headers, raw.toString('utf8'))
  if (payload === undefined) throw invalid('the body is not JSON; let the webhook send application/json')
  return payload
}

function toldOf(taken: Taken): string {
  if (taken.kind === 'skipped') return `skipped: ${taken.reason}`
  return taken.merged ? `merged into deploy ${taken.deploy_id}` : `deploy ${taken.deploy_id}`
}

function answerOf(taken: readonly Taken[]) {
  const deployed = taken.find((one) => one.kind === 'deployed')
  if (deployed) return { ok: true, deploy_id: deployed.deploy_id }
  const [skipped] = taken
  return { ok: true, skipped: skipped?.kind === 'skipped' ? skipped.reason : 'event' }
}

async function deployByHook(deps: Deps, connection: HookedConnection, sha256: string) {
  const { deploy } = await acceptGitDeploy(deps, siteOf(connection), {
    git: null,
    within: async (tx) => {
      if (!(await touchDeployHook(tx, sha256, deps.clock()))) throw unknownDeployHook()
      return undefined
    },
  })
  deps.log.info({ site_id: connection.site_id, deploy_id: deploy.id }, 'deploy hook called')
  return { ok: true, deploy_id: deploy.id }
}
