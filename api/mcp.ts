import { Readable } from 'node:stream'
import {
  createMcpHandler,
  isLegacyRequest,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type Tool,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import { z } from 'zod'
import type { Context } from './context.ts'
import { internalMessage, statusOf, visibleError } from './http-errors.ts'
import { authorize, invoke, type RawCall } from './invoke.ts'
import type { Operation } from './operation.ts'
import { decodeBase64 } from './store-files.ts'

const instructions = `Plinth hosts static sites. To publish: create_site once, then deploy_files with the full set of files (index.html at the root),
or deploy_site with a base64 tar.gz or zip; an archive with a package.json is built with npm.
A deploy is answered at once with the status queued: call get_deploy_status until it is active or failed; error says why.
activate_deploy rolls back to an earlier deploy. list_deploys shows the history, get_manifest what is live.
A failing tool answers {status, message}; the message says what to do next.`

/** The input schema of a tool: raw bytes become `<name>_base64`. */
function toolInput(op: Operation): z.ZodObject {
  if (!op.raw) return op.input
  return op.input.extend({ [`${op.raw.name}_base64`]: z.string().describe(`${op.raw.description} In base64.`) })
}

/** Tools answer objects, so a list is wrapped. */
const toolOutput = (op: Operation) => (op.output instanceof z.ZodArray ? z.object({ items: op.output }) : op.output)

const jsonSchema = (schema: z.ZodType, io: 'input' | 'output') => z.toJSONSchema(schema, { io }) as Tool['inputSchema']

/** The answer of `tools/list`, in the order of the registry. */
function toolList(operations: readonly Operation[]): Tool[] {
  return operations.flatMap((op) => {
    if (!op.tool) return []
    return {
      name: op.id,
      title: op.title,
      description: op.summary,
      inputSchema: jsonSchema(toolInput(op), 'input'),
      outputSchema: jsonSchema(toolOutput(op), 'output'),
      annotations: {
        title: op.title,
        readOnlyHint: op.tool.readOnly ?? false,
        destructiveHint: op.tool.destructive ?? false,
        idempotentHint: op.tool.idempotent ?? op.tool.readOnly ?? false,
        openWorldHint: false,
      },
    }
  })
}

type Arguments = Record<string, unknown>

/** A server for one caller; it holds no state between requests. */
function createServer(operations: readonly Operation[], tools: readonly Tool[], ctx: Context): Server {
  const server = new Server({ name: 'plinth', version: '2026-09-07' }, { capabilities: { tools: {} }, instructions })
  server.setRequestHandler('tools/list', () => ({ tools: [...tools] }))
  server.setRequestHandler('tools/call', async ({ params }) => {
    const op = operations.find((candidate) => candidate.tool && candidate.id === params.name)
    if (!op)
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `there is no tool ${params.name}; tools/list shows them all`)
    try {
      authorize(op, ctx)
      const result = await invoke(op, ctx, async () => toolCall(op, params.arguments ?? {}))
      return answer(Array.isArray(result) ? { items: result } : (result as Arguments), result)
    } catch (error) {
      const visible = visibleError(error)
      if (!visible) ctx.log.error({ err: error, tool: op.id }, 'tool failed')
      const failure = { status: visible ? statusOf[visible.kind] : 500, message: visible?.message ?? internalMessage }
      return { ...answer(failure, failure), isError: true }
    }
  })
  return server
}

const answer = (structuredContent: Arguments, body: unknown) => ({
  content: [{ type: 'text' as const, text: JSON.stringify(body) }],
  structuredContent,
})

function toolCall(op: Operation, args: Arguments): RawCall {
  if (!op.raw) return { input: args }
  const field = `${op.raw.name}_base64`
  const bytes = decodeBase64(z.string().catch('').parse(args[field]), field)
  return { input: args, upload: { stream: Readable.from([bytes]), expectedBytes: bytes.length } }
}

/** Serves one parsed request of the caller: the stateless revision, the earlier handshake, or a bare `tools/call`. */
export function createToolServer(operations: readonly Operation[]) {
  const tools = toolList(operations)
  return async (request: Request, parsedBody: unknown, ctx: Context): Promise<Response> => {
    const server = () => createServer(operations, tools, ctx)
    if (!(await isLegacyRequest(request, parsedBody))) {
      return await createMcpHandler(server, { legacy: 'reject', responseMode: 'json' }).fetch(request, { parsedBody })
    }
    const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true })
    await server().connect(transport)
    return await transport.handleRequest(request, { parsedBody })
  }
}
