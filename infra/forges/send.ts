import { buffer } from 'node:stream/consumers'
import { FetchError } from '../net/fetch-error.ts'
import { type GuardedOptions, openGuardedClient } from '../net/guarded-fetch.ts'
import { ForgeError, type Send } from './transport.ts'

/** A page of a hundred long comments. */
const maxBytes = 16 * 1024 * 1024

/** Requests that reach public addresses only; the forge's name is looked up and checked for each. */
export function guardedSend(options: Omit<GuardedOptions, 'timeoutMs'>): Send {
  return async ({ method, url, headers, body, timeoutMs }) => {
    await using client = openGuardedClient({ ...options, timeoutMs })
    const request = { method, url, headers, ...(body !== undefined && { body: Buffer.from(body) }), maxBytes }
    try {
      const response = await client.request(request)
      return { status: response.status, headers: response.headers, body: (await buffer(response.body)).toString() }
    } catch (error) {
      if (error instanceof FetchError && lasting.has(error.reason))
        throw new ForgeError('refused', error.message, { cause: error })
      throw error
    }
  }
}

const lasting: ReadonlySet<FetchError['reason']> = new Set(['forbidden', 'redirect', 'too_large'])
