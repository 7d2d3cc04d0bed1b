import { Readable } from 'node:stream'
import { validateHostHeader } from '@modelcontextprotocol/server'
import type { Context as KoaContext, Next } from 'koa'
import { AppError } from '../core/errors.ts'
import type { Admitted } from './admission.ts'
import type { Authenticate } from './authenticate.ts'
import type { Context, Deps } from './context.ts'
import { leavingOf } from './event-stream.ts'
import { codesOf } from './http-errors.ts'
import { type JsonBody, receiveJson } from './json-body.ts'
import { jsonRpcError, parseErrorCode, type Refusal, refusalOf } from './json-rpc.ts'
import type { ToolServer } from './mcp.ts'
import { withOwnSentence } from './mcp-errors.ts'

/**
 * `POST /mcp`: the HTTP side of the tool server. Refusals by HTTP (401, 403, 405, 413, 415) look as in REST; a body that is no message gets a
 * JSON-RPC error with 400. The largest body depends on the tools that the key may call.
 */
export function createToolEndpoint(tools: ToolServer, deps: Deps, authenticate: Authenticate) {
  const { base, mcp } = deps.config.urls
  const origins = new Set([base, mcp].map((url) => new URL(url).origin))
  const hosts = [...[base, mcp].map((url) => new URL(url).hostname), 'localhost', '127.0.0.1', '[::1]']

  /** Refuses two attacks through a browser: a page of another origin, and DNS rebinding (a name that an attacker points at this machine). */
  function refuseBrowserAttacks(koa: KoaContext): void {
    if (!validateHostHeader(koa.get('host'), hosts).ok) {
      throw new AppError('forbidden', `the tool server does not answer to this host; use ${mcp}/mcp`)
    }
    const origin = koa.get('origin')
    if (origin !== '' && !origins.has(origin)) {
      throw new AppError('forbidden', `the tool server does not answer pages of ${origin}`)
    }
  }

  /** Undefined when the body is no JSON; the refusal is sent then. */
  async function receive(koa: KoaContext, ctx: Context, admitted: Admitted): Promise<JsonBody | undefined> {
    try {
      return await receiveJson(koa.req, tools.bounds[ctx.caller.scope], { admitted, spoolDir: deps.spoolDir })
    } catch (error) {
      if (!(error instanceof AppError) || error.kind !== 'invalid') throw error
      refuse(koa, { id: null, code: parseErrorCode, message: error.message })
      return undefined
    }
  }

  return async (koa: KoaContext, next: Next): Promise<void> => {
    if (koa.path !== '/mcp') return await next()
    if (koa.method !== 'POST') {
      throw new AppError('method_not_allowed', 'the tool server takes POST with a JSON-RPC 2.0 message', { allow: ['POST'] })
    }
    refuseBrowserAttacks(koa)
    const caller = await authenticate(koa)
    const payer = { kind: 'project', id: caller.project_id } as const
    const ctx = { ...deps, caller, db: deps.admission.databaseOf(payer), leaving: leavingOf(koa, deps.draining) }
    using admitted = deps.admission.enter(payer)
    await using body = await receive(koa, ctx, admitted)
    if (!body) return
    const refusal = refusalOf(body.value)
    if (refusal) return refuse(koa, refusal)
    await respond(koa, await tools.serve(toolRequest(koa, mcp), body, ctx), (body.value as { method?: unknown }).method)
  }
}

function refuse(koa: KoaContext, { id, code, message }: Refusal): void {
  koa.status = 400
  koa.set('plinth-error', code === parseErrorCode ? 'invalid_json' : 'invalid')
  koa.body = jsonRpcError(id, code, message)
}

/** The request in the form that the tool server's library accepts; it would refuse the `Accept` of curl. */
function toolRequest(koa: KoaContext, base: string): Request {
  const headers = new Headers({ accept: 'application/json, text/event-stream', 'content-type': 'application/json' })
  for (const name of ['mcp-protocol-version', 'mcp-method', 'mcp-name', 'mcp-session-id']) {
    const value = koa.get(name)
    if (value !== '') headers.set(name, value)
  }
  return new Request(new URL('/mcp', base), { method: 'POST', headers })
}

async function respond(koa: KoaContext, response: Response, method: unknown): Promise<void> {
  const type = response.headers.get('content-type')
  const text = type?.startsWith('application/json') ? await response.text() : undefined
  if (text !== undefined) koa.body = text === '' ? text : withOwnSentence(JSON.parse(text), method)
  else koa.body = response.body ? Readable.fromWeb(response.body as never) : null
  // Koa makes an empty body a 204, so the status comes last
  koa.status = response.status
  if (!response.ok) koa.set('plinth-error', codesOf(response.status)[0] ?? 'invalid')
  if (type) koa.type = type
}
