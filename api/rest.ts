import Router from '@koa/router'
import type { Context as Koa } from 'koa'
import { z } from 'zod'
import { AppError, unprocessable } from '../core/errors.ts'
import { maxJsonBodyBytes } from '../core/limits.ts'
import { announcedBytes, bodyStream, readJson, refuseOtherBodies, requireMediaType, spoolJson } from './body.ts'
import type { Context } from './context.ts'
import { asAnswered } from './event-stream.ts'
import { authorize, invoke, type RawCall } from './invoke.ts'
import type { Operation } from './operation.ts'

/** Where REST finds the members of an operation's input. */
export interface RestShape {
  readonly method: string
  readonly path: string
  readonly pathNames: readonly string[]
  readonly queryNames: readonly string[]
  readonly bodyNames: readonly string[]
}

/** Undefined for an operation that only tools have. Members go to the path by its template, else to the query (GET, DELETE, raw bodies) or the body. */
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
    queryNames: others.filter(inQuery),
    bodyNames: others.filter((name) => !inQuery(name)),
  }
}

/** Routes for every operation that REST has. `enter` finds out who calls. */
export function restRouter<C extends Context>(operations: readonly Operation[], enter: (koa: Koa) => Promise<C>): Router {
  // one address for each operation: neither a trailing slash nor other letters are the same
  const router = new Router({ strict: true, sensitive: true })
  for (const op of operations) {
    const shape = restShape(op)
    if (!shape) continue
    router.register(shape.path.replaceAll(/\{(\w+)\}/g, ':$1'), [shape.method], async (koa) => {
      const ctx = await enter(koa)
      authorize(op, ctx)
      await using received = await receive(op, shape, koa, ctx)
      koa.body = await invoke(asAnswered(op, koa), ctx, received.call, shape.pathNames)
    })
  }
  return router
}

type Received = AsyncDisposable & { readonly call: () => Promise<RawCall> }

/** Takes the body from the connection; parsing it may wait for its turn. */
async function receive(op: Operation, shape: RestShape, koa: Koa, ctx: Context): Promise<Received> {
  const named = { ...queryInput(op, shape, koa), ...(koa.params as Record<string, string>) }
  const nothing = { [Symbol.asyncDispose]: async () => undefined }
  if (op.raw) {
    requireMediaType(koa.req, op.raw.mediaTypes)
    const upload = { stream: bodyStream(koa.req), expectedBytes: announcedBytes(koa.req) }
    return { ...nothing, call: async () => ({ input: named, upload }) }
  }
  if (op.largeBody) {
    const spooled = await spoolJson(koa.req, op.largeBody.maxBytes, ctx.spoolDir)
    return {
      call: async () => {
        const { value, texts } = await spooled.parseShort()
        return { input: { ...bodyInput(value, shape), ...named }, texts }
      },
      [Symbol.asyncDispose]: () => spooled[Symbol.asyncDispose](),
    }
  }
  if (shape.bodyNames.length > 0) {
    const body = await readJson(koa.req, op.maxBodyBytes ?? maxJsonBodyBytes)
    return { ...nothing, call: async () => ({ input: { ...bodyInput(body, shape), ...named } }) }
  }
  refuseOtherBodies(koa.req)
  return { ...nothing, call: async () => ({ input: named }) }
}

function bodyInput(body: unknown, shape: RestShape): Record<string, unknown> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw unprocessable('the body must be a JSON object')
  return Object.fromEntries(Object.entries(body).filter(([name]) => shape.bodyNames.includes(name)))
}

/** Query members as the JSON values that the schema expects: `limit=5` is a number, `activate=false` a boolean. */
function queryInput(op: Operation, shape: RestShape, koa: Koa): Record<string, unknown> {
  const query = new URLSearchParams(koa.querystring)
  const present = shape.queryNames.filter((name) => query.has(name))
  return Object.fromEntries(
    present.map((name) => {
      const values = query.getAll(name)
      if (values.length > 1) throw unprocessable(`${name}: give it once`)
      return [name, fromText(op.input.shape[name], values[0] ?? '')]
    }),
  )
}

function fromText(schema: unknown, text: string): unknown {
  let inner = schema
  while (inner instanceof z.ZodOptional || inner instanceof z.ZodDefault || inner instanceof z.ZodNullable) inner = inner.unwrap()
  // as JSON writes numbers; Number() also reads 0x10 and an empty text
  if (inner instanceof z.ZodNumber) return /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text) ? Number(text) : text
  if (inner instanceof z.ZodBoolean) return text === 'true' ? true : text === 'false' ? false : text
  return text
}

/** @throws AppError `method_not_allowed` or `not_found`, for a request that no route has answered */
export function refuseUnrouted(koa: Koa, routers: readonly Router[]): never {
  const allow = routers.flatMap((router) => router.match(koa.path, koa.method).path.flatMap((layer) => layer.methods))
  if (allow.length > 0) {
    throw new AppError('method_not_allowed', `${koa.path} does not take ${koa.method}; it takes ${allow.join(', ')}`, { allow })
  }
  throw new AppError('not_found', `there is nothing at ${koa.method} ${koa.path}; /api/v1/openapi.json lists every operation`)
}
