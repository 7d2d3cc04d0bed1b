/** Why the tool server refuses a parsed body as a JSON-RPC 2.0 request, and the id of the response. */
export interface Refusal {
  readonly id: string | number | null
  readonly code: number
  readonly message: string
}

/** The codes of JSON-RPC 2.0, section 5.1. */
export const parseErrorCode = -32700
const invalidRequestCode = -32600
const invalidParamsCode = -32602

/** An error response of JSON-RPC 2.0. */
export const jsonRpcError = (id: Refusal['id'], code: number, message: string) => ({
  jsonrpc: '2.0',
  id,
  error: { code, message },
})

/** The members of a message or of its params that are checked. */
type Members = Partial<Record<'jsonrpc' | 'id' | 'method' | 'params' | 'name' | 'arguments', unknown>>

const isObject = (value: unknown): value is Members => typeof value === 'object' && value !== null && !Array.isArray(value)

const isId = (value: unknown): value is string | number => typeof value === 'string' || typeof value === 'number'

/**
 * Checks a message before any method is called; undefined when it can be served. Batches left the protocol with its revision 2025-06-18, and
 * a null id was never allowed. The library checks all other requirements of a revision.
 */
export function refusalOf(message: unknown): Refusal | undefined {
  const invalidRequest = { id: null, code: invalidRequestCode }
  if (Array.isArray(message)) return { ...invalidRequest, message: 'batches are not supported; send one message per request' }
  if (!isObject(message)) return { ...invalidRequest, message: 'the body must be a JSON-RPC 2.0 message, which is an object' }
  const { jsonrpc, method, params } = message
  const id = isId(message.id) ? message.id : null
  const refuse = (text: string, code = invalidRequestCode) => ({ id, code, message: text })
  if (jsonrpc !== '2.0') return refuse('jsonrpc must be "2.0"')
  if ('id' in message && typeof id !== 'string' && !Number.isSafeInteger(id)) return refuse('id must be a text or an integer')
  if (!('method' in message)) return 'result' in message || 'error' in message ? undefined : refuse('method is missing')
  if (typeof method !== 'string') return refuse('method must be a text')
  if (params !== undefined && !isObject(params)) return refuse('params must be an object')
  return method === 'tools/call' && 'id' in message ? toolCallRefusal(params ?? {}, refuse) : undefined
}

function toolCallRefusal(params: Members, refuse: (text: string, code: number) => Refusal): Refusal | undefined {
  if (typeof params.name !== 'string') {
    return refuse('params.name must be the name of a tool; tools/list shows them all', invalidParamsCode)
  }
  if (params.arguments === undefined || isObject(params.arguments)) return undefined
  return refuse('params.arguments must be an object', invalidParamsCode)
}
