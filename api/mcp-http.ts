import { Readable } from 'node:stream'
import { validateHostHeader } from '@modelcontextprotocol/server'
import type { Context as KoaContext, Next } from 'koa'
import { AppError } from '../core/errors.ts'
import { maxJsonBodyBytes, maxToolBodyBytes } from '../core/limits.ts'
import { authenticate } from './authenticate.ts'
import { announcedBytes, readJson, spoolJson } from './body.ts'
import type { Context, Deps } from './context.ts'
import { invalidRequestCode, jsonRpcError, parseErrorCode, refusalOf } from './json-rpc.ts'
import { createToolServer } from './mcp.ts'
import type { Operation } from './operation.ts'

/**
 * `POST /mcp`: what HTTP has to do with the tool server. Refusals of HTTP's own (401, 403, 405, 413, 415) look as in REST; a body that is
 * no message is refused as JSON-RPC says, with 400. Large bodies are received into a file and served one at a time.
 */
export function createToolEndpoint(operations: readonly Operation[], deps: Deps) {
  const serve = createToolServer(operations)
  const { base, mcp } = deps.config.urls
  const origins = new Set([base, mcp].map((url) => new URL(url).origin))
  const hosts = [...[base, mcp].map((url) => new URL(url).hostname), 'localhost', '127.0.0.1', '[::1]']

  /** Both attacks need a browser: a page of another origin, or a name that an attacker points at this machine. */
  function refuseBrowserTricks(koa: KoaContext): void {
    if (!validateHostHeader(koa.get('host'), hosts).ok) {
      throw new AppError('forbidden', `the tool server does not answer to this host; use ${mcp}/mcp`)
    }
    const origin = koa.get('origin')
    if (origin !== '' && !origins.has(origin)) {
      throw new AppError('forbidden', `the tool server does not answer pages of ${origin}`)
    }
  }

  async function answerMessage(koa: KoaContext, parse: () => Promise<unknown>, ctx: Context): Promise<void> {
    let message: unknown
    try {
      message = await parse()
    } catch (error) {
      if (error instanceof AppError && error.kind === 'invalid') return refuse(koa, null, parseErrorCode, error.message)
      throw error
    }
    const refusal = refusalOf(message)
    if (refusal) return refuse(koa, refusal.id, invalidRequestCode, refusal.message)
    await respond(koa, await serve(toolRequest(koa, mcp), message, ctx))
  }

  return async (koa: KoaContext, next: Next): Promise<void> => {
    if (koa.path !== '/mcp') return await next()
    if (koa.method !== 'POST') {
      throw new AppError('method_not_allowed', 'the tool server takes POST with a JSON-RPC 2.0 message', { allow: ['POST'] })
    }
    refuseBrowserTricks(koa)
    const ctx = { ...deps, caller: await authenticate(deps, koa.get('authorization') || undefined) }
    if ((announcedBytes(koa.req) ?? Number.POSITIVE_INFINITY) <= maxJsonBodyBytes) {
      return await answerMessage(koa, () => readJson(koa.req, maxJsonBodyBytes), ctx)
    }
    await using spooled = await spoolJson(koa.req, maxToolBodyBytes, deps.spoolDir)
    // the whole call is one turn, so an operation that would wait for a turn of its own already has it
    const turns = { run: <T>(work: () => Promise<T>) => work() }
    await deps.turns.run(() => answerMessage(koa, () => spooled.parse(), { ...ctx, turns }))
  }
}

function refuse(koa: KoaContext, id: string | number | null, code: number, message: string): void {
  koa.status = 400
  koa.body = jsonRpcError(id, code, message)
}

/** The request as the tool server's library wants it; the `Accept` that curl sends would be refused. */
function toolRequest(koa: KoaContext, base: string): Request {
  const headers = new Headers({ accept: 'application/json, text/event-stream', 'content-type': 'application/json' })
  for (const name of ['mcp-protocol-version', 'mcp-method', 'mcp-name', 'mcp-session-id']) {
    const value = koa.get(name)
    if (value !== '') headers.set(name, value)
  }
  return new Request(new URL('/mcp', base), { method: 'POST', headers })
}

async function respond(koa: KoaContext, response: Response): Promise<void> {
  const type = response.headers.get('content-type')
  if (type?.startsWith('application/json')) koa.body = await response.text()
  else koa.body = response.body ? Readable.fromWeb(response.body as never) : null
  // Koa makes an empty body a 204, so the status comes last
  koa.status = response.status
  if (type) koa.type = type
}
