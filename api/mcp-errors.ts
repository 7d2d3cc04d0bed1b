import { z } from 'zod'

const invalidRequestCode = -32600
const methodNotFoundCode = -32601
const invalidParamsCode = -32602
const internalCode = -32603

const ErrorAnswer = z.looseObject({ error: z.looseObject({ code: z.number(), message: z.string() }) })
const Issues = z.array(z.object({ path: z.array(z.union([z.string(), z.number()])), message: z.string() }))

/**
 * Rewrites an error response of the tool server's library for callers: where the library describes an error in terms of its own code, one
 * sentence says what is wrong and what to do. Other responses stay as they are.
 * @param method the method of the request
 */
export function withOwnSentence(answer: unknown, method: unknown): unknown {
  const parsed = ErrorAnswer.safeParse(answer)
  if (!parsed.success) return answer
  const { error } = parsed.data
  return { ...parsed.data, error: { ...error, ...described(error, String(method).slice(0, 100)) } }
}

function described({ code, message }: { code: number; message: string }, method: string): { code: number; message: string } {
  if (code === methodNotFoundCode) {
    return { code, message: `there is no method ${method}; this server has tools/list and tools/call` }
  }
  const issue = firstIssue(message)
  // wrong params are the caller's fault, but the library reports them as its own
  if (issue) return { code: code === internalCode ? invalidParamsCode : code, message: issue }
  if (code === invalidRequestCode && message.endsWith('not a valid JSON-RPC message')) {
    return {
      code,
      message: 'send a JSON-RPC 2.0 message with jsonrpc, id, method and params only, in which params._meta is an object',
    }
  }
  return { code, message: message.replace(/^(Bad Request|Invalid params): /, '') }
}

/** The first issue of the library's schema, which the message lists as JSON. */
function firstIssue(message: string): string | undefined {
  const start = message.indexOf('[\n')
  if (start === -1) return undefined
  try {
    const [issue] = Issues.parse(JSON.parse(message.slice(start)))
    return issue && `${issue.path.join('.')}: ${issue.message}`
  } catch {
    return undefined
  }
}
