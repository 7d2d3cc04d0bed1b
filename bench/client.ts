import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import type { Stack } from '../infra/local/stack.ts'
import { quantile } from './statistics.ts'

/** Connections are kept, as those of a browser are; destroy it at the end. */
export const agent = new Agent({ keepAlive: true })

export interface Sent {
  readonly type: string
  readonly body: string | Buffer
  readonly headers?: Readonly<Record<string, string>>
}
export const json = (value: unknown): Sent => ({ type: 'application/json', body: JSON.stringify(value) })

export type Call = ReturnType<typeof caller>

/** Calls through Caddy over kept connections; throws unless the answer is 200. */
export function caller(stack: Stack, key: string) {
  // biome-ignore lint/suspicious/noExplicitAny: what an answer holds is the caller's knowledge
  return async (endpoint: string, sent?: Sent): Promise<any> => {
    const [method, path] = endpoint.split(' ')
    const headers = {
      host: new URL(stack.config.urls.base).host,
      authorization: `Bearer ${key}`,
      ...(sent && { 'content-type': sent.type, 'content-length': Buffer.byteLength(sent.body) }),
      ...sent?.headers,
    }
    const outgoing = request({ host: '127.0.0.1', port: stack.config.http.port, method, path, headers, agent }).end(sent?.body)
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    const answer = await text(response)
    if (response.statusCode !== 200) throw new Error(`${endpoint}: ${response.statusCode} ${answer}`)
    return JSON.parse(answer)
  }
}

/** Visits the host until its first page is the expected text. */
export async function waitServed(stack: Stack, host: string, expected: string, pauseMs = 2): Promise<void> {
  const options = { host: '127.0.0.1', port: stack.config.http.port, path: '/', headers: { host }, agent }
  for (;;) {
    const [response] = (await once(request(options).end(), 'response')) as [IncomingMessage]
    if ((await text(response)) === expected) return
    await pause(pauseMs)
  }
}

/** Answers the deploy once it has ended well. */
// biome-ignore lint/suspicious/noExplicitAny: as of a call
export async function waitActive(call: Call, deployId: string): Promise<any> {
  for (;;) {
    const deploy = await call(`GET /api/v1/deploys/${deployId}`)
    if (deploy.status === 'active' || deploy.status === 'superseded') return deploy
    if (deploy.status === 'failed') throw new Error(deploy.error)
    await pause(10)
  }
}

/** @param samples milliseconds of each step */
export function print(title: string, samples: Readonly<Record<string, readonly number[]>>): void {
  process.stdout.write(`${title}\n`)
  for (const [step, times] of Object.entries(samples)) {
    const at = (share: number) => `${quantile(times, share).toFixed(0).padStart(6)} ms`
    process.stdout.write(`  ${step.padEnd(16)} p50 ${at(0.5)}   p95 ${at(0.95)}   max ${at(1)}   of ${times.length}\n`)
  }
}
