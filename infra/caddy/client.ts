import { isDeepStrictEqual } from 'node:util'
import { Agent, request } from 'undici'
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
      if (tries === 5 || (error as { code?: string }).code !== 'UND_ERR_SOCKET') throw error
    }
  }
}

async function push(socketPath: string, config: CaddyConfig): Promise<void> {
  await using agent = closing(new Agent({ connect: { socketPath }, headersTimeout: 20_000 }))
  const call = (method: 'GET' | 'POST', path: string, body?: CaddyConfig) =>
    request(`http://caddy${path}`, {
      method,
      dispatcher: agent,
      // loading a configuration replaces the admin server, which resets kept-alive connections
      reset: true,
      headers: { origin: `http://${adminOrigin}`, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    })
  const current = async () => (await call('GET', '/config/')).body.json()

  if (isDeepStrictEqual(await current(), config)) return
  const answer = await call('POST', '/load', config)
  const text = await answer.body.text()
  if (answer.statusCode !== 200) throw new Error(`Caddy refused its configuration: ${text.trim()}`)
  if (!isDeepStrictEqual(await current(), config)) throw new Error('Caddy runs another configuration than the one it was given')
}

/** Whether Caddy's admin socket answers. */
export async function isCaddyUp(socketPath: string): Promise<boolean> {
  await using agent = closing(new Agent({ connect: { socketPath, timeout: 1000 }, headersTimeout: 2000 }))
  try {
    const { body } = await request('http://caddy/config/admin', {
      dispatcher: agent,
      reset: true,
      headers: { origin: `http://${adminOrigin}` },
    })
    await body.dump()
    return true
  } catch {
    return false
  }
}

const closing = (agent: Agent) => Object.assign(agent, { [Symbol.asyncDispose]: () => agent.close() })
