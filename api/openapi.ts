import { z } from 'zod'
import {
  createDocument,
  type ZodOpenApiLinksObject,
  type ZodOpenApiOperationObject,
  type ZodOpenApiResponseObject,
} from 'zod-openapi'
import { csvType } from './csv-format.ts'
import { responseOf } from './docs/responses.ts'
import { codesOf } from './http-errors.ts'
import type { ErrorStatus, Operation } from './operation.ts'
import { addedParameters, type RestShape, restShape } from './rest.ts'
import { submit_form, submitFormObject } from './visitor/form-operation.ts'

const ErrorBody = z.object({ message: z.string().describe('What is wrong and what to do.') }).meta({ id: 'Error' })

const retryAfter = {
  'Retry-After': {
    required: true,
    description: 'Seconds after which the request may succeed.',
    schema: { type: 'integer', minimum: 0 },
  },
} as const
const challenge = {
  'WWW-Authenticate': { required: true, description: 'How to authenticate.', schema: { type: 'string', const: 'Bearer' } },
} as const

/** Every failure by status: the name of its component, its description, its headers. */
const failures: Readonly<Record<number, readonly [string, string, (typeof retryAfter | typeof challenge)?]>> = {
  400: ['Invalid', 'The input is not valid, or the body is not JSON.'],
  401: ['Unauthorized', 'The key is missing, unknown or revoked.', challenge],
  402: ['PaymentRequired', 'The plan or a missing payment does not allow the request; the message names the plan that does.'],
  403: ['Forbidden', "The key's scope is too low."],
  404: ['NotFound', 'The object does not exist in the project.'],
  409: ['Conflict', 'The request conflicts with the current state or a quota.'],
  413: ['TooLarge', 'The body is too large.'],
  415: ['UnsupportedMediaType', 'The media type, charset or encoding of the body is not accepted.'],
  422: ['Unprocessable', 'The input does not match the schema.'],
  429: ['TooManyRequests', 'Too many requests; Retry-After says when to try again.', retryAfter],
  500: ['InternalError', 'An internal error of the platform.'],
  503: ['Unavailable', 'A part of the platform does not answer; try again later.', retryAfter],
}

const json = (schema: z.ZodType, example?: unknown) => ({
  'application/json': { schema, ...(example === undefined ? {} : { example }) },
})

const errorCode = (status: number) => ({
  'Plinth-Error': {
    required: true,
    description: 'What went wrong, for programs; `/docs` says what each code means, and new ones may follow.',
    schema: { type: 'string' as const, enum: codesOf(status) },
  },
})

const ignoredMembers = {
  'Plinth-Ignored': {
    description: 'The names of the first ten members of the body or parameters of the query that the operation does not have.',
    schema: { type: 'string' as const, maxLength: 658 },
  },
}

const nextPage = {
  Link: {
    description: 'The address of the next page with `rel="next"`, when there is one.',
    schema: { type: 'string' as const },
  },
}

/** Whether REST answers a page of a list, not the whole. */
const isPaged = ({ lists, input }: Operation) => lists?.[0]?.continuedBy !== undefined && 'limit' in input.shape

const headersOf = (status: number) => ({ ...failures[status]?.[2], ...errorCode(status), ...ignoredMembers })

const failureResponses = Object.fromEntries(
  Object.entries(failures).map(([status, [id, description]]): [string, ZodOpenApiResponseObject] => [
    status,
    { id, description, content: json(ErrorBody), headers: headersOf(Number(status)) },
  ]),
)

interface Face {
  readonly title: string
  readonly description: string
  readonly scheme: { readonly name: string; readonly bearerFormat?: string; readonly description: string }
  /** What visitors use without a key. */
  readonly publicPaths?: Readonly<Record<string, Record<string, ZodOpenApiOperationObject>>>
}

const answers =
  'Every success is 200 with JSON; every error is {message} with a code in the header Plinth-Error. Unknown members and parameters are ignored, and the header Plinth-Ignored names them; when a member is repeated, the last one counts.'

/** What the documents of projects and of the operator say about themselves. */
export const faces = {
  projects: {
    title: 'Plinth',
    description: `Self-hosted static hosting. ${answers}`,
    scheme: {
      name: 'key',
      bearerFormat: 'svc_<id>_<secret>',
      description: 'A project key. Its scope is readonly, editor or full; each includes the lower ones.',
    },
    publicPaths: { [submit_form.path]: { post: submitFormObject } },
  },
  operator: {
    title: 'Plinth for operators',
    description: `The projects, emails and storage of an installation. ${answers}`,
    scheme: { name: 'operator', description: 'The operator token of the installation.' },
  },
} as const satisfies Record<string, Face>

/**
 * The OpenAPI document of the REST interface, made from the same operations that serve it.
 * @param tags descriptions of the operations' tags by name
 */
export function openApiDocument(
  operations: readonly Operation[],
  tags: Readonly<Record<string, string>>,
  serverUrl: string,
  { title, description, scheme: { name, ...scheme }, publicPaths }: Face = faces.projects,
) {
  const paths: Record<string, Record<string, ZodOpenApiOperationObject>> = {}
  for (const op of operations) {
    const shape = restShape(op)
    if (!shape) continue
    paths[shape.path] = {
      ...paths[shape.path],
      [shape.method.toLowerCase()]: operationObject(op, shape, { all: operations, scheme: name }),
    }
  }
  return createDocument({
    openapi: '3.1.1',
    info: {
      title,
      version: '2026-09-07',
      description,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: serverUrl }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    security: [{ [name]: [] }],
    components: { securitySchemes: { [name]: { type: 'http', scheme: 'bearer', ...scheme } } },
    paths: { ...paths, ...publicPaths },
  })
}

interface Surroundings {
  readonly all: readonly Operation[]
  readonly scheme: string
}

function operationObject(op: Operation, shape: RestShape, { all, scheme }: Surroundings): ZodOpenApiOperationObject {
  const isForProjects = scheme === faces.projects.scheme.name
  const members: Record<string, z.ZodType> = op.input.shape
  const pick = (names: readonly string[]) =>
    z.object(Object.fromEntries(names.map((name) => [name, members[shape.memberOf(name)] ?? z.unknown()])))
  const links = linksOf(op, shape, all)
  const added = addedParameters(op)
  return {
    operationId: op.id,
    summary: op.title,
    description: isForProjects ? `${op.summary}\n\nNeeds the \`${op.scope}\` scope.` : op.summary,
    tags: [op.tag],
    // since 3.1 the roles that a request needs are listed here, for every type of scheme
    security: [{ [scheme]: isForProjects ? [op.scope] : [] }],
    requestParams: {
      ...(shape.pathNames.length > 0 ? { path: pick(shape.pathNames) } : {}),
      ...(shape.queryNames.length + Object.keys(added.query).length > 0
        ? { query: pick(shape.queryNames).extend(added.query) }
        : {}),
      ...(Object.keys(added.header).length > 0 ? { header: z.object(added.header) } : {}),
    },
    ...(shape.bodyNames.length > 0 ? { requestBody: { required: true, content: json(pick(shape.bodyNames), op.example) } } : {}),
    ...(op.raw ? { requestBody: rawBody(op.raw) } : {}),
    responses: {
      200: {
        description: 'Done.',
        content: contentOf(op),
        headers: { ...ignoredMembers, ...(isPaged(op) && nextPage) },
        ...(Object.keys(links).length > 0 ? { links } : {}),
      },
      ...Object.fromEntries(failuresOf(op, shape).map((status) => [status, failureResponse(op, status)])),
    },
  }
}

const contentOf = (op: Operation) => ({
  ...(op.download ? files(op.download) : json(op.output, responseOf(op))),
  ...(op.csv && files([csvType])),
  ...(op.events && eventStream),
})

const files = (types: readonly string[]) =>
  Object.fromEntries(types.map((type) => [type, { schema: { type: 'string' as const } }]))

const eventStream = {
  'text/event-stream': {
    schema: {
      type: 'object' as const,
      description: 'One server-sent event. The stream has any number of them.',
      required: ['event', 'data'],
      properties: {
        event: { type: 'string' as const },
        id: { type: 'string' as const, description: 'For Last-Event-ID, to resume after this event.' },
        data: { type: 'string' as const, contentMediaType: 'application/json' },
      },
    },
  },
}

const rawBody = (raw: NonNullable<Operation['raw']>) => ({
  required: true,
  description: raw.description,
  content: Object.fromEntries(
    raw.mediaTypes.map((type) => [
      type,
      { schema: { type: 'string' as const, format: 'binary', minLength: 1, maxLength: raw.maxBytes } },
    ]),
  ),
})

/** The failure that all operations share, or the operation's own, which may have either body. */
function failureResponse(op: Operation, status: number): ZodOpenApiResponseObject | undefined {
  const own = op.errorBodies?.[status as ErrorStatus]
  const [, description = ''] = failures[status] ?? []
  return own ? { description, content: json(z.union([ErrorBody, own])), headers: headersOf(status) } : failureResponses[status]
}

/** Links from an operation that creates an object to those whose path takes its id: `site_id` names a `Site`. */
function linksOf(op: Operation, shape: RestShape, all: readonly Operation[]): ZodOpenApiLinksObject {
  const idName = `${op.output.meta()?.id?.toLowerCase()}_id`
  if (shape.method !== 'POST' || shape.pathNames.includes(idName)) return {}
  const users = all.filter((other) => restShape(other)?.pathNames.includes(idName))
  return Object.fromEntries(
    users.map((other) => [other.id, { operationId: other.id, parameters: { [idName]: '$response.body#/id' } }]),
  )
}

/** The statuses of an operation's failures, in ascending order. */
function failuresOf(op: Operation, shape: RestShape): number[] {
  const all: number[] = [401, 403, 415, 429, 500, 503, ...op.errors]
  if (shape.pathNames.length > 0) all.push(404)
  if (shape.bodyNames.length > 0) all.push(400, 413)
  if (shape.bodyNames.length + shape.queryNames.length + Object.keys(addedParameters(op).query).length > 0) all.push(422)
  if (op.requires || op.whenSuspended) all.push(402)
  return [...new Set(all)].sort((a, b) => a - b)
}
