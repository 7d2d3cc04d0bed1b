import Router from '@koa/router'
import { AppError, notFound } from '../../core/errors.ts'
import { messengerNames } from '../../core/messengers.ts'
import { noteBotRole } from '../../services/messengers/channels.ts'
import { isFromMessenger } from '../../services/messengers/hooks.ts'
import { takeUpdate } from '../../services/messengers/updates.ts'
import { receiveBytes } from '../body.ts'
import { clientNetwork } from '../client-network.ts'
import type { Deps } from '../context.ts'
import { parseBoundedJson } from '../json-body.ts'
import type { JsonBounds } from '../json-scanner.ts'

const maxUpdateBytes = 64 * 1024
const updateBounds: JsonBounds = {
  maxBytes: maxUpdateBytes,
  maxKeptBytes: maxUpdateBytes,
  maxValues: 5000,
  longMembers: new Set(),
}

/** The webhooks that the messengers call for every message to the bot. They repeat a call that is not answered with 200. */
export function messengerHooks(deps: Deps): Router {
  const router = new Router({ strict: true, sensitive: true })
  for (const name of messengerNames) {
    router.post(`/hooks/${name}/:secret`, async (koa) => {
      const address = { kind: 'address', id: clientNetwork(koa.req) } as const
      using caller = deps.admission.enter(address)
      const provider = deps.messengers.open(name, 'platform')
      const given = { path: koa.params.secret ?? '', header: provider ? koa.get(provider.secretHeader) : '' }
      if (!provider || !isFromMessenger(deps, name, given)) throw notFound('there is no such webhook')
      const received = receiveBytes(koa.req, {
        maxBytes: maxUpdateBytes,
        hold: (bytes) => caller.hold('memory', bytes),
        waitForSlot: () => caller.waitForChunkSlot(),
      })
      const sent = await received.then((body) => parseBoundedJson(body, updateBounds)).catch(ignoreUnreadable)
      const [update, change] = [provider.readUpdate(sent), provider.readRoleChange(sent)]
      const db = deps.admission.databaseOf(address)
      if (update) await takeUpdate({ ...deps, db }, name, update)
      if (change) await noteBotRole(db, name, change)
      koa.body = { ok: true }
    })
  }
  return router
}

/** A messenger would repeat a message that it is refused, and hold up others. */
function ignoreUnreadable(error: unknown): undefined {
  if (error instanceof AppError && (error.kind === 'too_large' || error.kind === 'invalid')) return undefined
  throw error
}
