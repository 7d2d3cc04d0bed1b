import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { sha256Hex } from '../../infra/crypto/sha256.ts'
import { findLock, isOpen, setBypass } from '../../services/access/locks.ts'
import { requirePlanForAccess } from '../../services/access/state.ts'
import { operation } from '../operation.ts'
import { SiteAccess } from '../views/access.ts'
import { site_id } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'
import { shownAccess } from './access.ts'

const tag = 'Access'

export const rotate_access_bypass = operation({
  id: 'rotate_access_bypass',
  title: 'Issue a bypass token',
  summary:
    'Issues a token with which machines pass the login of a closed site, in the request header X-Plinth-Bypass. It is shown only once; an earlier one stops working.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/access/bypass',
  tool: {},
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  whenSuspended: 'refuse',
  whenTrashed: 'refuse',
  output: z.object({ token: z.string() }).meta({ id: 'BypassToken' }),
  errors: [402, 409],
  handler: async (ctx, _input, site) => {
    const lock = await findLock(ctx.db, site.id)
    if (!lock) throw isOpen()
    requirePlanForAccess(lock.mode, ctx.caller.plan, site)
    const token = randomBytes(32).toString('base64url')
    await setBypass(ctx, site, sha256Hex(token))
    return { token }
  },
})

export const remove_access_bypass = operation({
  id: 'remove_access_bypass',
  title: 'Remove the bypass token',
  summary: 'Removes the token with which machines pass the login of a closed site.',
  tag,
  rest: 'DELETE /api/v1/sites/{site_id}/access/bypass',
  tool: { destructive: true, idempotent: true },
  scope: 'editor',
  input: z.object({ site_id }),
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: SiteAccess,
  errors: [409],
  handler: async (ctx, _input, site) => {
    await setBypass(ctx, site, null)
    return shownAccess(ctx, site)
  },
})
