import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { request } from '../http.ts'

export interface ApiAnswer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: what an answer holds is the caller's knowledge
  readonly body: any
}

/** `call('POST /api/v1/sites', token, body)` on the API's unix socket: no name has to resolve and no port to be open. */
export type CallApi = (endpoint: string, token: string, body?: unknown) => Promise<ApiAnswer>

export const apiOnSocket =
  (socketPath: string): CallApi =>
  async (endpoint, token, body) => {
    const [method, path] = endpoint.split(' ')
    const outgoing = request({
      socketPath,
      method: method as string,
      path: path as string,
      headers: {
        host: 'localhost',
        authorization: `Bearer ${token}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      timeout: 30_000,
    })
    // one that comes after the response is seen by its reader
    outgoing.on('error', () => undefined)
    outgoing.on('timeout', () => outgoing.destroy(new Error(`the API did not answer ${endpoint} within 30 s`)))
    outgoing.end(body === undefined ? undefined : JSON.stringify(body))
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    return { status: response.statusCode ?? 0, body: parse(await text(response)) }
  }

function parse(answer: string): unknown {
  try {
    return JSON.parse(answer)
  } catch {
    return answer
  }
}
