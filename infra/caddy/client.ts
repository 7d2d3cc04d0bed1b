import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { isDeepStrictEqual } from 'node:util'
import { request } from '../http.ts'
import { adminOrigin, type CaddyConfig } from './config.ts'

/**
 * Pushes the configuration to a running Caddy through the admin socket, and verifies that it is in force.
 * Safe to repeat; a Caddy that already has it is not reloaded.
 * @throws Error with Caddy's own words when it refuses the configuration
 */
export async function pushCaddyConfig(socketPath: string, config: CaddyConfig): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await push(socketPath, config)
    } catch (error) {
      // the admin server that is being replaced may close a connection that it has just accepted
      if (tries === 5 || !['ECONNRESET', 'EPIPE'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    }
  }
}

async function push(socketPath: string, config: CaddyConfig): Promise<void> {
  const current = async () => JSON.parse((await call(socketPath, { method: 'GET', path: '/config/' })).body) as unknown

  if (isDeepStrictEqual(await current(), config)) return
  const { status, body } = await call(socketPath, { method: 'POST', path: '/load', body: JSON.stringify(config) })
  if (status !== 200) throw new Error(`Caddy refused its configuration: ${body.trim()}`)
  if (!isDeepStrictEqual(await current(), config)) throw new Error('Caddy runs another configuration than the one it was given')
}

/** Whether Caddy's admin socket answers. */
export async function isCaddyUp(socketPath: string): Promise<boolean> {
  try {
    await call(socketPath, { method: 'GET', path: '/config/admin', timeoutMs: 2000 })
    return true
  } catch {
    return false
  }
}

interface Call {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly body?: string
  readonly timeoutMs?: number
}

/** Over a connection of its own: loading a configuration replaces the admin server, which resets what is kept alive. */
async function call(
  socketPath: string,
  { method, path, body, timeoutMs = 20_000 }: Call,
): Promise<{ status: number; body: string }> {
  const headers = {
    host: 'caddy',
    origin: `http://${adminOrigin}`,
    ...(body !== undefined && { 'content-type': 'application/json' }),
  }
  const outgoing = request({ socketPath, method, path, headers, agent: false, signal: AbortSignal.timeout(timeoutMs) })
  // one after the answer has begun ends the reading of its body
  outgoing.on('error', () => undefined)
  outgoing.end(body)
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  return { status: response.statusCode ?? 0, body: await text(response) }
}
