import { Readable } from 'node:stream'
import Router from '@koa/router'
import type { Context as Koa } from 'koa'
import { z } from 'zod'
import { AppError, unprocessable } from '../core/errors.ts'
import type { Admitted } from './admission.ts'
import { announcedBytes, arriving, refuseOtherBodies, requireMediaType } from './body.ts'
import type { Context } from './context.ts'
import { asFormatted, formatParameters } from './csv-format.ts'
import type { Download } from './download.ts'
import { asAnswered, followParameters } from './event-stream.ts'
import { ignoredMembers } from './ignored-members.ts'
import { authorize, invoke, type RawCall } from './invoke.ts'
import { receiveJson } from './json-body.ts'
import { jsonBoundsOf } from './json-bounds.ts'
import type { JsonBounds } from './json-scanner.ts'
import { listingIn } from './listing.ts'
import type { Operation } from './operation.ts'
import { sendDownload, sendJson } from './send-answer.ts'

/** Where REST finds the members of an operation's input. */
export interface RestShape {
  readonly method: string
  readonly path: string
  readonly pathNames: readonly string[]
  readonly queryNames: readonly string[]
  readonly bodyNames: readonly string[]
  /** The member of the input for a name in the query. */
  memberOf(queryName: string): string
}

/** Undefined for an operation that is only a tool. Members go to the path by its template, else to the query (GET, DELETE, raw bodies) or the body. */
export function restShape(op: Operation): RestShape | undefined {
  if (!op.rest) return undefined
  const [method = '', path = ''] = op.rest.split(' ')
  const pathNames = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? '')
  const others = Object.keys(op.input.shape).filter((name) => !pathNames.includes(name))
  const inQuery = (name: string) =>
    method === 'GET' || method === 'DELETE' || op.raw !== undefined || (op.query?.includes(name) ?? false)
  return {
    method,
    path,
    pathNames,
    queryNames: others.filter(inQuery).map((name) => op.queryAliases?.[name] ?? name),
    bodyNames: others.filter((name) => !inQuery(name)),
    memberOf: (queryName) => others.find((name) => op.queryAliases?.[name] === queryName) ?? queryName,
  }
}

/** The parameters that REST adds to the input of an operation. */
export const addedParameters = (op: Operation) => ({
  query: { ...(op.events && followParameters(op).query), ...(op.csv && formatParameters) },
  header: op.events ? followParameters(op).header : {},
})

/**
 * Makes the routes of all operations in REST. As in OpenAPI, a path with fewer names goes before others: `/submissions/export` is no submission.
 * `enter` identifies the caller.
 */
export function restRouter<C extends Context>(operations: readonly Operation[], enter: (koa: Koa) => Promise<C>): Router {
  // one path for each operation: neither a trailing slash nor another case matches
  const router = new Router({ strict: true, sensitive: true })
  const shapes = operations.map(restShape).filter((shape) => shape !== undefined)
  for (const op of operations) {
    const shape = restShape(op)
    if (!shape) continue
    const route: Route = { op, shape, bounds: jsonBoundsOf(op) }
    const before = shapes.filter((other) => other.pathNames.length < shape.pathNames.length && isAt(shape.path, other.path))
    router.register(shape.path.replaceAll(/\{(\w+)\}/g, ':$1'), [shape.method], async (koa, next) => {
      if (before.some(({ path }) => isAt(path, koa.path))) {
        await next()
        return
      }
      const ctx = await enter(koa)
      authorize(op, ctx)
      await using held = new AsyncDisposableStack()
      const admitted = held.use(ctx.admission.enter({ kind: 'project', id: ctx.caller.project_id }))
      await using received = await receive(route, koa, ctx, admitted)
      const answered = asFormatted(asAnswered(op, koa), koa)
      const result = await invoke(answered, ctx, async () => received.call, shape.pathNames)
      const sending = { koa, admitted, held, log: ctx.log }
      if (result instanceof Readable) koa.body = result
      else if (answered.download) await sendDownload(sending, result as Download)
      else {
        linkNextPage(koa, op, result)
        await sendJson(sending, result)
      }
    })
  }
  return router
}

/** Whether a path is one of a pattern, whose names stand for any segment. */
function isAt(pattern: string, path: string): boolean {
  const [expected, given] = [pattern.split('/'), path.split('/')]
  return expected.length === given.length && expected.every((segment, i) => segment.startsWith('{') || segment === given[i])
}

/** The header `Link` (RFC 8288) of a page that others follow. */
function linkNextPage(koa: Koa, { lists }: Operation, result: unknown): void {
  const next = listingIn(result)?.next
  const continuedBy = lists?.[0]?.continuedBy
  if (next === undefined || continuedBy === undefined) return
  const query = new URLSearchParams(koa.querystring)
  query.delete('offset')
  query.set(continuedBy, next)
  koa.set('link', `<${koa.path}?${query.toString()}>; rel="next"`)
}

interface Route {
  readonly op: Operation
  readonly shape: RestShape
  readonly bounds: JsonBounds
}

type Received = AsyncDisposable & { readonly call: RawCall }

const nothingLeft = { [Symbol.asyncDispose]: async () => undefined }

/** Receives a JSON body; raw bytes are left for the operation to read. */
async function receive({ op, shape, bounds }: Route, koa: Koa, ctx: Context, admitted: Admitted): Promise<Received> {
  const named = { ...queryInput(op, shape, koa), ...(koa.params as Record<string, string>) }
  if (op.raw) {
    nameIgnored(koa, op, shape)
    requireMediaType(koa.req, op.raw.mediaTypes)
    const hold = (bytes: number) => admitted.hold('spool', bytes)
    const stream = Readable.from(arriving(koa.req, { hold, waitForSlot: () => admitted.waitForChunkSlot() }), {
      objectMode: false,
    })
    return { ...nothingLeft, call: { input: named, upload: { stream, expectedBytes: announcedBytes(koa.req) } } }
  }
  if (shape.bodyNames.length > 0) {
    const body = await receiveJson(koa.req, bounds, { admitted, spoolDir: ctx.spoolDir })
    nameIgnored(koa, op, shape, body.value)
    const call = { input: { ...bodyInput(body.value, shape), ...named }, bytes: body.bytes, texts: body.texts }
    return { call, [Symbol.asyncDispose]: () => body[Symbol.asyncDispose]() }
  }
  nameIgnored(koa, op, shape)
  refuseOtherBodies(koa.req)
  return { ...nothingLeft, call: { input: named } }
}

/** Names ignored parameters and members in the response, even if it becomes an error. */
function nameIgnored(koa: Koa, op: Operation, { queryNames, bodyNames }: RestShape, body?: unknown): void {
  const query = {
    given: new URLSearchParams(koa.querystring).keys(),
    known: [...queryNames, ...Object.keys(addedParameters(op).query)],
  }
  const names = ignoredMembers(query, { given: isObject(body) ? Object.keys(body) : [], known: bodyNames })
  if (names.length > 0) koa.set('plinth-ignored', names.join(', '))
}

const isObject = (body: unknown): body is object => typeof body === 'object' && body !== null && !Array.isArray(body)

function bodyInput(body: unknown, shape: RestShape): Record<string, unknown> {
  if (!isObject(body)) throw unprocessable('the body must be a JSON object')
  return Object.fromEntries(Object.entries(body).filter(([name]) => shape.bodyNames.includes(name)))
}

/** Converts the query to the JSON values that the schema expects: `limit=5` is a number, `activate=false` a boolean. */
function queryInput(op: Operation, shape: RestShape, koa: Koa): Record<string, unknown> {
  const query = new URLSearchParams(koa.querystring)
  const present = shape.queryNames.filter((name) => query.has(name))
  return Object.fromEntries(
    present.map((name) => {
      const values = query.getAll(name)
      if (values.length > 1) throw unprocessable(`${name}: give it once`)
      const member = shape.memberOf(name)
      return [member, fromText(op.input.shape[member], values[0] ?? '')]
    }),
  )
}

function fromText(schema: unknown, text: string): unknown {
  let inner = schema
  while (inner instanceof z.ZodOptional || inner instanceof z.ZodDefault || inner instanceof z.ZodNullable) inner = inner.unwrap()
  // only numbers as in JSON; Number() also accepts 0x10 and an empty text
  if (inner instanceof z.ZodNumber) return /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text) ? Number(text) : text
  if (inner instanceof z.ZodBoolean) return text === 'true' ? true : text === 'false' ? false : text
  return text
}

/** @throws AppError `method_not_allowed` or `not_found`, for a request that no route matches */
export function refuseUnrouted(koa: Koa, routers: readonly Router[]): never {
  const layers = routers.flatMap((router) => router.match(koa.path, koa.method).path)
  // a path with a name of its own in place of an id is not one of that id
  const fewest = Math.min(...layers.map(({ paramNames }) => paramNames.length))
  const allow = layers.filter(({ paramNames }) => paramNames.length === fewest).flatMap(({ methods }) => methods)
  if (allow.length > 0) {
    throw new AppError('method_not_allowed', `${koa.path} does not take ${koa.method}; it takes ${allow.join(', ')}`, { allow })
  }
  throw new AppError('not_found', `there is nothing at ${koa.method} ${koa.path}; /api/v1/openapi.json lists every operation`)
}
