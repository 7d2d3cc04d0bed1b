import Router from '@koa/router'
import type { Context as Koa } from 'koa'
import { AppError, type ErrorKind } from '../../core/errors.ts'
import { type FormReason, formReasons, isOwnOrigin, maxFormBodyBytes, nextLocation, userAgentText } from '../../core/forms.ts'
import { isUuid } from '../../core/uuid.ts'
import type { Counter } from '../../infra/limits.ts'
import { type FormSite, findFormSite } from '../../services/forms/form-site.ts'
import { type Posting, rateKeys } from '../../services/forms/rates.ts'
import { formRefusal } from '../../services/forms/refusals.ts'
import { submit } from '../../services/forms/submit.ts'
import type { Admitted } from '../admission.ts'
import { receiveBytes } from '../body.ts'
import { clientNetwork } from '../client-network.ts'
import type { Deps } from '../context.ts'
import { visibleError } from '../http-errors.ts'
import { allowOrigin, blockAnswer, type FormAnswer, findBlock, refusalAnswer, thanksAnswer } from './form-answers.ts'
import { readFormBody, requireFormMediaType } from './form-body.ts'

/** The endpoint to which the forms of sites are posted, by visitors without a key: the page's origin authorizes them. */
export function formRoutes(deps: Deps, blocks: Counter): Router {
  const router = new Router({ strict: true, sensitive: true })

  router.options('/f/:site_id', async (koa) => {
    const posting = postingOf(koa)
    using _caller = deps.admission.enter({ kind: 'address', id: posting.network })
    const origin = koa.get('origin')
    const site = origin === '' ? undefined : await findSite(deps, posting)
    if (site && isOwn(deps, site)(origin)) koa.set(allowOrigin(origin))
    koa.status = 204
  })

  router.post('/f/:site_id', async (koa) => {
    const posting = postingOf(koa)
    try {
      await takePost(deps, blocks, koa, posting)
    } catch (error) {
      const refusal = asFormRefusal(error)
      if (!refusal) deps.log.error({ err: error }, 'form post failed')
      else if (refusal.kind !== 'too_many_requests' && refusal.kind !== 'unavailable')
        blocks.count(rateKeys(posting).address, deps.clock())
      answer(koa, refusalAnswer(refusal, koa.req))
    }
  })
  return router
}

/** The site as it is named, which need not exist. */
const postingOf = (koa: Koa): Posting => ({ site_id: (koa.params.site_id ?? '').toLowerCase(), network: clientNetwork(koa.req) })

async function takePost(deps: Deps, blocks: Counter, koa: Koa, posting: Posting): Promise<void> {
  const { network } = posting
  const now = deps.clock()
  const origin = koa.get('origin')
  // says nothing of the site, so that pages may read why
  if (origin !== '') koa.set(allowOrigin(origin))
  const block = findBlock(blocks, posting, now)
  if (block) return answer(koa, blockAnswer(block, now, koa.req))
  using caller = deps.admission.enter({ kind: 'address', id: network })
  koa.remove('access-control-allow-origin')
  if (origin === '') throw formRefusal('origin_required', 'the header Origin is missing; forms are posted by pages of their site')
  const site = await findSite(deps, posting)
  if (!site) throw formRefusal('site_not_found', 'there is no site with this form endpoint')
  if (!isOwn(deps, site)(origin))
    throw formRefusal('origin_not_allowed', `pages of ${origin.slice(0, 300)} may not post to this site`)
  koa.set(allowOrigin(origin))
  const post = await receivePost(deps, koa, site, caller)
  if (site.suspended) throw formRefusal('suspended', 'this site does not accept forms at the moment')
  const own = { ...deps, db: deps.admission.databaseOf({ kind: 'project', id: site.project_id }) }
  const outcome = await submit(own, site, { ...post, network, user_agent: userAgentText(koa.get('user-agent')) })
  if (outcome.kind === 'blocked') {
    blocks.block(outcome.block.key, outcome.block.until)
    return answer(koa, blockAnswer(outcome.block, now, koa.req))
  }
  if (outcome.kind === 'gone') throw formRefusal('site_not_found', 'there is no site with this form endpoint')
  if (outcome.kind === 'exhausted') throw formRefusal('quota_exhausted', 'this site cannot accept more forms this month')
  const location = post.next === undefined ? undefined : nextLocation(post.next, origin, isOwn(deps, site))
  answer(koa, thanksAnswer(origin, location, koa.req))
}

/** Undefined for a malformed id, and for sites in the trash. */
async function findSite({ admission }: Deps, { site_id, network }: Posting): Promise<FormSite | undefined> {
  if (!isUuid(site_id)) return undefined
  return await findFormSite(admission.databaseOf({ kind: 'address', id: network }), site_id)
}

const isOwn =
  ({ config }: Deps, site: FormSite) =>
  (origin: string) =>
    isOwnOrigin(origin, site, { ...config.urls, httpsPort: config.http.httpsPort })

async function receivePost(deps: Deps, koa: Koa, site: FormSite, caller: Admitted) {
  using received = deps.admission.enter({ kind: 'site', id: site.site_id })
  const type = requireFormMediaType(koa.req)
  const body = await receiveBytes(koa.req, {
    maxBytes: maxFormBodyBytes,
    hold(bytes) {
      caller.hold('memory', bytes)
      received.hold('memory', bytes)
    },
    waitForSlot: () => received.waitForChunkSlot(),
  })
  const reading = await readFormBody(body, type, koa.get('content-type')).catch((error: unknown) => {
    throw formRefusal('invalid_body', `the body is not a form of ${type}${error instanceof AppError ? `: ${error.message}` : ''}`)
  })
  if (reading.ok) return reading.post
  throw reading.reason === 'too_many_fields'
    ? formRefusal('too_many_fields', 'the form has more than 30 fields')
    : formRefusal('invalid_body', 'the body must be a JSON object with the fields of the form')
}

/** The reason for errors of what forms share with the rest of the api. */
const reasonsOfKinds: Partial<Record<ErrorKind, FormReason>> = {
  invalid: 'invalid_body',
  too_large: 'body_too_large',
  unsupported_media_type: 'unsupported_content_type',
  too_many_requests: 'rate_limited',
}

/** Undefined for an internal fault. */
function asFormRefusal(error: unknown): AppError | undefined {
  const visible = visibleError(error)
  const reason = visible && !Object.hasOwn(formReasons, visible.code) ? reasonsOfKinds[visible.kind] : undefined
  return visible && reason ? formRefusal(reason, visible.message, visible.details) : visible
}

function answer(koa: Koa, { status, headers, body }: FormAnswer): void {
  koa.status = status
  koa.set(headers)
  koa.body = body
}
