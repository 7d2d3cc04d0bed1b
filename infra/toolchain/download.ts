import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { pipeline } from 'node:stream/promises'

const connectTimeoutMs = 5000
const idleTimeoutMs = 15_000

export interface Download {
  readonly url: string
  readonly sha256: string
}

/**
 * Downloads a file and checks its sha256. One try.
 * @throws Error when the server does not answer within 5 s, or the content is another one
 */
export async function download({ url, sha256 }: Download, file: string): Promise<void> {
  const hash = createHash('sha256')
  const response = await get(new URL(url))
  await pipeline(
    response,
    async function* (chunks: AsyncIterable<Buffer>) {
      for await (const chunk of chunks) {
        hash.update(chunk)
        yield chunk
      }
    },
    createWriteStream(file),
  )
  const found = hash.digest('hex')
  if (found !== sha256) throw new Error(`${url} has the sha256 ${found}, expected ${sha256}`)
}

async function get(url: URL, redirects = 3): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const outgoing = request(url, { agent: false }, resolve)
  outgoing.on('error', reject)
  const connecting = setTimeout(() => outgoing.destroy(new Error(`${url.host} did not answer within 5 s`)), connectTimeoutMs)
  outgoing.setTimeout(idleTimeoutMs, () => outgoing.destroy(new Error(`${url.host} went silent`)))
  outgoing.end()
  const response = await promise.finally(() => clearTimeout(connecting))
  const { statusCode = 0, headers } = response
  if (statusCode === 200) return response
  response.destroy()
  if (statusCode >= 300 && statusCode < 400 && headers.location && redirects > 0) {
    const next = new URL(headers.location, url)
    if (next.protocol === 'https:') return get(next, redirects - 1)
  }
  throw new Error(`${url.host} answered ${statusCode}`)
}
