import { z } from 'zod'
import { createDocument, type ZodOpenApiOperationObject } from 'zod-openapi'
import type { ErrorStatus, Operation } from './operation.ts'
import { restShape } from './rest.ts'

const ErrorBody = z.object({ message: z.string().describe('What is wrong and what to do.') }).meta({ id: 'Error' })

const reasons: Record<number, string> = {
  400: 'The input is not valid.',
  401: 'The key is missing, unknown or revoked.',
  402: 'The plan or a missing payment forbids it; the message names the plan.',
  403: "The key's scope is too low.",
  404: 'It does not exist in the project.',
  409: 'It conflicts with the present state or a quota.',
  413: 'The body is too large.',
  415: 'The body has another media type.',
  422: 'The input does not fit the schema.',
  429: 'Too many; Retry-After says when to try again.',
  500: 'A fault of the platform.',
  503: 'A part of the platform does not answer; try again.',
}

/** The description of the REST interface, made from the same operations that serve it. */
export function openApiDocument(operations: readonly Operation[], serverUrl: string) {
  const paths: Record<string, Record<string, ZodOpenApiOperationObject>> = {}
  for (const op of operations) {
    const shape = restShape(op)
    if (!shape) continue
    paths[shape.path] = { ...paths[shape.path], [shape.method.toLowerCase()]: operationObject(op) }
  }
  return createDocument({
    openapi: '3.1.1',
    info: {
      title: 'Plinth',
      version: '2026-09-07',
      description: 'Self-hosted static hosting. Every success is 200 with JSON; every error is {message}.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: serverUrl }],
    security: [{ key: [] }],
    components: { securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'A project key.' } } },
    paths,
  })
}

function operationObject(op: Operation): ZodOpenApiOperationObject {
  const shape = restShape(op)
  const members: Record<string, z.ZodType> = op.input.shape
  const pick = (names: readonly string[]) =>
    z.object(Object.fromEntries(names.map((name) => [name, members[name] ?? z.unknown()])))
  const content = (schema: z.ZodType) => ({ 'application/json': { schema } })
  const errors = statuses(op, (shape?.pathNames.length ?? 0) > 0, (shape?.bodyNames.length ?? 0) > 0)
  return {
    operationId: op.id,
    summary: op.title,
    description: `${op.summary}\n\nNeeds the \`${op.scope}\` scope.`,
    tags: [op.tag],
    requestParams: {
      ...(shape?.pathNames.length ? { path: pick(shape.pathNames) } : {}),
      ...(shape?.queryNames.length ? { query: pick(shape.queryNames) } : {}),
    },
    ...(shape?.bodyNames.length ? { requestBody: { required: true, content: content(pick(shape.bodyNames)) } } : {}),
    ...(op.raw ? { requestBody: rawBody(op.raw) } : {}),
    responses: {
      200: { description: 'Done.', content: content(op.output) },
      ...Object.fromEntries(
        errors.map((status) => [status, { description: reasons[status] ?? '', content: content(ErrorBody) }]),
      ),
    },
  }
}

const rawBody = (raw: NonNullable<Operation['raw']>) => ({
  required: true,
  description: raw.description,
  content: Object.fromEntries(raw.mediaTypes.map((type) => [type, { schema: { type: 'string' as const, format: 'binary' } }])),
})

function statuses(op: Operation, hasId: boolean, hasBody: boolean): number[] {
  const all: (ErrorStatus | 401 | 403 | 404 | 413 | 415 | 422 | 500)[] = [401, 403, 415, 422, 500, 503, ...op.errors]
  if (hasBody) all.push(400, 413)
  if (hasId) all.push(404)
  return [...new Set(all)].sort((a, b) => a - b)
}
