import Router from '@koa/router'
import type { Context as Koa } from 'koa'
import { z } from 'zod'
import { AppError, invalid } from '../../core/errors.ts'
import { forgeOf, parseDelivery, payloadText } from '../../core/git-push.ts'
import { maxHookBodyBytes } from '../../core/limits.ts'
import { open, SealError } from '../../infra/crypto/seal.ts'
import { missingProof, verifyDelivery } from '../../infra/forges/verify.ts'
import {
  findConnectionOfDeployHook,
  findHookedConnection,
  type HookedConnection,
  saveDelivery,
  saveRefusedDelivery,
} from '../../services/git/connections.ts'
import { deployByHook, hashDeployHook, noDeployHook } from '../../services/git/deploy-hooks.ts'
import { noHookedSite, type Taken, takeEvents } from '../../services/git/take-events.ts'
import { createWrongAttempts, unauthorized } from '../authenticate.ts'
import { receiveBytes, refuseAnnounced } from '../body.ts'
import { clientNetwork } from '../client-network.ts'
import type { Deps } from '../context.ts'
import { parseBoundedJson } from '../json-body.ts'
import type { JsonBounds } from '../json-scanner.ts'

const refusalPauseMs = 1000
const maxResultLength = 1000
/** Wrong signatures from one address for one site that are recorded; further ones get 429. A valid one is always accepted, because forges share addresses. */
const wrongPerMinute = 10
/** Larger than a push with 2,048 commits, the most that GitHub sends. */
const payloadBounds: JsonBounds = {
  maxBytes: maxHookBodyBytes,
  maxKeptBytes: maxHookBodyBytes,
  maxValues: 200_000,
  longMembers: new Set(),
}

/** The webhooks, called by forges and other services without a key: a signature, or the secret URL of a deploy hook, authorizes them. */
export function gitHooks(deps: Deps): Router {
  const countWrong = createWrongAttempts(
    wrongPerMinute,
    'too many deliveries without the right proof; set the secret at the forge and wait a minute',
  )
  const router = new Router({ strict: true, sensitive: true })

  router.post('/hooks/git/:site_id', async (koa) => {
    const address = { kind: 'address', id: clientNetwork(koa.req) } as const
    using caller = deps.admission.enter(address)
    const siteId = z.uuid().safeParse(koa.params.site_id)
    const db = deps.admission.databaseOf(address)
    const connection = siteId.success ? await findHookedConnection(db, siteId.data) : undefined
    if (!connection) throw noHookedSite()
    using delivery = deps.admission.enter({ kind: 'site', id: connection.site_id })
    const hold = (bytes: number) => {
      caller.hold('memory', bytes)
      delivery.hold('memory', bytes)
    }
    const own = { ...deps, db: deps.admission.databaseOf({ kind: 'project', id: connection.project_id }) }
    const receive = () =>
      receiveBytes(koa.req, { maxBytes: maxHookBodyBytes, hold, waitForSlot: () => delivery.waitForChunkSlot() })
    koa.body = await takeDelivery(own, connection, koa, { receive, countWrong })
  })

  router.post('/hooks/deploy/:secret', async (koa) => {
    const address = { kind: 'address', id: clientNetwork(koa.req) } as const
    using _caller = deps.admission.enter(address)
    const sha256 = hashDeployHook(koa.params.secret ?? '')
    const connection = await findConnectionOfDeployHook(deps.admission.databaseOf(address), sha256)
    if (!connection) throw noDeployHook()
    using _delivery = deps.admission.enter({ kind: 'site', id: connection.site_id })
    // the body is not used
    refuseAnnounced(koa.req, maxHookBodyBytes)
    const own = { ...deps, db: deps.admission.databaseOf({ kind: 'project', id: connection.project_id }) }
    koa.body = { ok: true, deploy_id: await deployByHook(own, connection, sha256) }
  })
  return router
}

interface Receiving {
  readonly receive: () => Promise<Buffer>
  readonly countWrong: (sender: string) => void
}

async function takeDelivery(deps: Deps, connection: HookedConnection, koa: Koa, { receive, countWrong }: Receiving) {
  const { headers } = koa.req
  const { site_id } = connection
  const now = deps.clock()
  const sender = forgeOf(headers)
  const seen = { at: now.toISOString(), forge: sender?.forge ?? 'generic', event: (sender?.event ?? '').slice(0, 100) } as const

  const secret = webhookSecret(deps, connection)
  const missing = missingProof({ headers, secret })
  const raw = missing === undefined ? await receive() : Buffer.alloc(0)
  const verdict =
    missing === undefined ? verifyDelivery({ headers, raw, secret, now }) : ({ ok: false, reason: missing } as const)
  if (!verdict.ok) {
    countWrong(`${site_id} ${clientNetwork(koa.req)}`)
    const refused = { ...seen, result: `refused: ${verdict.reason}` }
    await saveRefusedDelivery(deps.db, site_id, refused, new Date(now.getTime() - refusalPauseMs))
    deps.log.debug({ site_id, forge: seen.forge }, 'webhook refused')
    throw unauthorized(verdict.reason)
  }
  const note = (result: string) => saveDelivery(deps.db, site_id, { ...seen, result })
  // reports need to know the forge
  if (connection.forge === null) await note('received')
  try {
    const delivery = parseDelivery(headers, readPayload(koa, raw))
    const taken = await takeEvents(deps, connection, delivery, verdict.delivery_id)
    await note(taken.map(resultOf).join(', ').slice(0, maxResultLength))
    return answerOf(taken)
  } catch (error) {
    if (error instanceof AppError) await note(`refused: ${error.message}`)
    throw error
  }
}

/** The secret of the webhook; empty when there is no usable one. */
function webhookSecret({ keyring }: Deps, { site_id, webhook_secret_sealed }: HookedConnection): string {
  if (webhook_secret_sealed === null) return ''
  try {
    return open(keyring, webhook_secret_sealed, { table: 'git_connections', id: site_id, column: 'webhook_secret_sealed' })
  } catch (error) {
    // sealed with an earlier secret key: the owner has to create another webhook secret
    if (error instanceof SealError) return ''
    throw error
  }
}

/** @throws AppError `invalid` when it is no JSON, or larger than any forge sends */
function readPayload(koa: Koa, raw: Buffer): unknown {
  const json = payloadText(koa.req.headers, raw.toString('utf8'))
  if (json === undefined) throw invalid('the body is not a form with a payload; let the webhook send application/json')
  return json.trim() === '' ? {} : parseBoundedJson(Buffer.from(json), payloadBounds)
}

function resultOf(taken: Taken): string {
  if (taken.kind === 'skipped') return `skipped: ${taken.reason}`
  return taken.merged ? `merged into deploy ${taken.deploy_id}` : `deploy ${taken.deploy_id}`
}

function answerOf(taken: readonly Taken[]) {
  const deployed = taken.find((one) => one.kind === 'deployed')
  if (deployed) return { ok: true, deploy_id: deployed.deploy_id }
  const [skipped] = taken
  return { ok: true, skipped: skipped?.kind === 'skipped' ? skipped.reason : 'event' }
}
