import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Operation } from '../../api/operation.ts'
import { operations } from '../../api/operations/index.ts'
import { operatorOperations } from '../../api/operator/index.ts'
import { restShape } from '../../api/rest.ts'
import { makeSite } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

let w: World
let owner: TestProject
let siteId: string
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
  siteId = (await makeSite(w, owner)).id
})
afterAll(() => w[Symbol.asyncDispose]())

interface TextField {
  readonly op: Operation
  /** Where it is in the input; `*` is an entry of a list. */
  readonly path: readonly string[]
  readonly schema: Readonly<Record<string, unknown>>
}

const withMeta = (found: TextField, meta: Record<string, unknown>): TextField => ({
  ...found,
  schema: { ...meta, ...found.schema },
})

const registry = [...operations, ...operatorOperations]
const fields: TextField[] = registry.flatMap((op) => textsIn(op, z.toJSONSchema(op.input, { io: 'input' }), []))

function textsIn(op: Operation, schema: any, path: readonly string[]): TextField[] {
  if (schema.const !== undefined || schema.enum) return []
  if (schema.type === 'string') return [{ op, path, schema }]
  const inner = (schema.anyOf ?? []).flatMap((one: unknown) => textsIn(op, one, path).map((found) => withMeta(found, schema)))
  const members = Object.entries(schema.properties ?? {}).flatMap(([name, member]) => textsIn(op, member, [...path, name]))
  return [...inner, ...members, ...(schema.items ? textsIn(op, schema.items, [...path, '*']) : [])]
}

const fieldsOfAll = fields.map((field) => [field.op.id, field.path.join('.'), field] as const)

test('the registry has the text fields that are known', () => expect(fields.length).toBeGreaterThan(40))

test.each(fieldsOfAll)('51: %s says how long %s may be', (_id, _path, { schema }) => {
  const hasOneLength = schema.format === 'uuid' || schema.format === 'date'
  const isBounded = typeof schema.pattern === 'string' && /^\^\[[^\]]+\]\{[\d,]*\d\}\$$/.test(schema.pattern)
  expect(hasOneLength || isBounded || typeof schema.maxLength === 'number').toBe(true)
})

const units = [
  ' ',
  '/',
  './',
  '=',
  '=a',
  'a',
  'a.',
  '-',
  '<',
  '\r',
  '"',
  '*',
  '**/',
  '!',
  ':',
  '@',
  '\u00e9',
  '\ud800',
  'http://',
  'e\u0301',
]
const length = 50 * 1024
/** Of a request line; what is longer never reaches us. */
const lengthOfQuery = 1024

describe('51: 50 KB of anything in a text cost the process at most 20 ms more than one letter', () => {
  const sent = fieldsOfAll.filter(([, , { op, path }]) => op.rest && !restShape(op)?.pathNames.includes(path[0] ?? ''))
  test.each(sent)('%s %s', async (_id, _path, field) => {
    const usual = await costOf(field, 'x')
    for (const unit of units) {
      const cost = await costOf(field, longText(field, unit), usual + 20)
      expect({ unit, isWithin: cost - usual <= 20, cost: cost - usual <= 20 ? undefined : cost }).toEqual({
        unit,
        isWithin: true,
      })
    }
  })
})

/** The name in the query for a member of the input; undefined for a member of the body. */
function queryNameOf(op: Operation, member: string): string | undefined {
  const shape = restShape(op)
  return shape?.queryNames.find((name) => shape.memberOf(name) === member)
}

function longText({ op, path }: TextField, unit: string): string {
  const isInQuery = queryNameOf(op, path[0] ?? '') !== undefined
  return `${unit.repeat((isInQuery ? lengthOfQuery : length) / unit.length)}x!`
}

/** Milliseconds of the processor that a request takes: the best of six, which no collection of garbage disturbed, or the first that is enough. */
async function costOf(field: TextField, text: string, enough = 0): Promise<number> {
  let best = Number.POSITIVE_INFINITY
  for (let run = 0; run < 12 && best > enough; run++) {
    const before = process.threadCpuUsage()
    expect((await send(field, text)).status).toBeLessThan(500)
    const { user, system } = process.threadCpuUsage(before)
    best = Math.min(best, (user + system) / 1000)
  }
  return best
}

async function send({ op, path }: TextField, text: string) {
  const shape = restShape(op)
  if (!shape) throw new Error(`${op.id} is no operation of REST`)
  const [name = '', ...within] = path
  const route = shape.path.replaceAll(/\{(\w+)\}/g, (_, id) => (id === 'site_id' ? siteId : randomUUID()))
  const key = operations.includes(op) ? owner.key : operatorToken
  const value = within.reduceRight<unknown>((inner, step) => (step === '*' ? [inner] : entryWith(step, inner)), text)
  const queryName = queryNameOf(op, name)
  if (queryName !== undefined) {
    const query = new URLSearchParams({ [queryName]: text.toWellFormed() }).toString()
    return await w.call(`${shape.method} ${route}?${query}`, { key })
  }
  return await w.call(`${shape.method} ${route}`, { key, json: { ...op.example, [name]: value } })
}

/** An entry of a list of files, whose other members are right. */
function entryWith(name: string, value: unknown): Record<string, unknown> {
  if (name === 'path') return { path: value, sha256: '0'.repeat(64) }
  return { path: 'index.html', [name]: value }
}

test.each(['=', ' ', 'A=', 'A ', '\n', '-'])('51: 1 MB of %j instead of base64 costs a tool less than 500 ms', async (unit) => {
  const call = {
    name: 'deploy_site',
    arguments: { site_id: siteId, archive_base64: `${unit.repeat((1024 * 1024) / unit.length)}!` },
  }
  const before = process.threadCpuUsage()
  await w.call('POST /mcp', { key: owner.key, json: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: call } })
  const { user, system } = process.threadCpuUsage(before)
  expect((user + system) / 1000).toBeLessThan(500)
})
