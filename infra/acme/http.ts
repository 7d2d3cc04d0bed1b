import { AsyncLocalStorage } from 'node:async_hooks'
import type { Agent } from 'node:https'
import acme from 'acme-client'
import { AcmeError, errorOfResponse, readProblem } from './errors.ts'

/** The state shared by all requests inside `converse`, because acme-client accepts neither a signal nor an agent. */
export interface Conversation {
  readonly agent: Agent
  readonly signal: AbortSignal
  /** The Retry-After of the latest response. */
  retryAfterMs?: number | undefined
}

const conversations = new AsyncLocalStorage<Conversation>()

export const converse = <T>(conversation: Conversation, work: () => Promise<T>): Promise<T> =>
  conversations.run(conversation, work)
export const currentConversation = () => conversations.getStore()

const requestMs = 20_000
const maxAnswerBytes = 1024 * 1024
const maxRetryAfterMs = 7 * 24 * 3_600_000

// its own retries send the same signed body again, whose nonce is used up, and without them it fails on an error that has no answer:
// callers retry with a new nonce
acme.axios.interceptors.request.clear()
acme.axios.interceptors.response.clear()

acme.axios.interceptors.request.use((config) => {
  const conversation = currentConversation()
  if (!conversation) throw new Error('a request to a certificate authority outside of a conversation')
  return Object.assign(config, {
    httpsAgent: conversation.agent,
    signal: conversation.signal,
    timeout: requestMs,
    maxContentLength: maxAnswerBytes,
    proxy: false,
    validateStatus: null,
  })
})

acme.axios.interceptors.response.use(
  ({ status, headers, data, ...response }) => {
    const retryAfterMs = readRetryAfter(headers['retry-after'])
    const conversation = currentConversation()
    if (conversation) conversation.retryAfterMs = retryAfterMs
    // acme-client itself retries a request whose nonce was refused, with the new nonce of that response
    const isBadNonce = status === 400 && readProblem(data).type === 'badNonce'
    if (status >= 400 && !isBadNonce) throw errorOfResponse(status, data, retryAfterMs)
    return { status, headers, data, ...response }
  },
  (error: NodeJS.ErrnoException & { readonly config?: { readonly url?: string } }) => {
    currentConversation()?.signal.throwIfAborted()
    throw unreachable(error, error.config?.url)
  },
)

function unreachable(error: NodeJS.ErrnoException, url: string | undefined): AcmeError {
  const where = url === undefined ? '' : ` at ${URL.parse(url)?.host}`
  return new AcmeError('unreachable', `the certificate authority${where} cannot be reached: ${error.code ?? error.message}`, {
    cause: error,
  })
}

/** Seconds or a date (RFC 9110, 10.2.3), in milliseconds from now. */
export function readRetryAfter(header: unknown): number | undefined {
  if (typeof header !== 'string') return undefined
  const waitMs = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now()
  return Number.isNaN(waitMs) ? undefined : Math.min(Math.max(waitMs, 0), maxRetryAfterMs)
}
