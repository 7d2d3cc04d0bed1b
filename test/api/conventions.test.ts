import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { operations } from '../../api/operations/index.ts'
import { restShape } from '../../api/rest.ts'
import { makeSite } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project()
})
afterAll(() => w[Symbol.asyncDispose]())

test('O01 O02 C07: the OpenAPI document lists every operation under /api/v1 with its id, and the tools have the same names', async () => {
  const { status, body } = await w.call('GET /api/v1/openapi.json')
  expect([status, body.openapi, body.info.version]).toEqual([200, '3.1.1', '2026-09-07'])
  const listed = Object.entries(body.paths).flatMap(([path, methods]) =>
    Object.entries(methods as Record<string, { operationId: string }>).map(([method, op]) => [
      op.operationId,
      `${method.toUpperCase()} ${path}`,
    ]),
  )
  const inRest = operations.filter((op) => op.rest).map((op) => [op.id, op.rest])
  expect(Object.fromEntries(listed)).toEqual({ ...Object.fromEntries(inRest), submit_form: 'POST /f/{site_id}' })
  const outside = listed.filter(([, route]) => !route?.split(' ')[1]?.startsWith('/api/v1/'))
  expect(outside.map(([id]) => id)).toEqual(['submit_form'])
  const tools = await w.call('POST /mcp', { key: owner.key, json: { jsonrpc: '2.0', id: 1, method: 'tools/list' } })
  const names = tools.body.result.tools.map((tool: { name: string }) => tool.name)
  expect(names).toEqual(operations.filter((op) => op.tool).map((op) => op.id))
})

test('the OpenAPI document and the tools are those that were reviewed', async () => {
  const { body: document } = await w.call('GET /api/v1/openapi.json')
  const tools = await w.call('POST /mcp', { key: owner.key, json: { jsonrpc: '2.0', id: 1, method: 'tools/list' } })
  await expect(JSON.stringify(document, null, 2)).toMatchFileSnapshot('openapi.json')
  await expect(JSON.stringify(tools.body.result.tools, null, 2)).toMatchFileSnapshot('tools.json')
})

test('E38: the operator API has a document of its own, which is the one that was reviewed', async () => {
  const { status, body } = await w.call('GET /operator/v1/openapi.json')
  const paths = Object.keys(body.paths)
  expect([status, body.security, paths.every((path) => path.startsWith('/operator/v1/'))]).toEqual([
    200,
    [{ operator: [] }],
    true,
  ])
  const { valid, errors } = await new Validator().validate(structuredClone(body))
  expect([valid, errors]).toEqual([true, undefined])
  await expect(JSON.stringify(body, null, 2)).toMatchFileSnapshot('operator-openapi.json')
})

test('C04 O04: bytes are refused with 415 on every operation that takes JSON or nothing', async () => {
  const site = await makeSite(w, owner)
  for (const op of operations) {
    const shape = restShape(op)
    if (!shape || op.raw || shape.method === 'GET') continue
    const path = shape.path.replace('{site_id}', site.id).replace('{deploy_id}', '00000000-0000-7000-8000-000000000000')
    const answer = await w.call(`${shape.method} ${path}`, {
      key: owner.key,
      bytes: Buffer.from('bytes'),
      type: 'application/octet-stream',
    })
    expect([op.id, answer.status]).toEqual([op.id, 415])
  }
})

test.each([
  ['is cut off', '{"name": "x"', 400],
  ['is empty', '', 400],
  ['is not UTF-8', Buffer.from([0x22, 0xff, 0x22]), 400],
  ['is a text', '"text"', 422],
  ['is null', 'null', 422],
])('O04: a JSON body that %s is refused with a message', async (_what, text, expected) => {
  const { status, body } = await w.call('POST /api/v1/sites', {
    key: owner.key,
    bytes: Buffer.from(text),
    type: 'application/json',
  })
  expect([status, Object.keys(body)]).toEqual([expected, ['message']])
})

test('O04: a JSON body of more than 1 MB is refused with 413', async () => {
  const json = { name: 'x'.repeat(1_048_577), subdomain: 'abcdefghijk' }
  expect((await w.call('POST /api/v1/sites', { key: owner.key, json })).status).toBe(413)
})

test('E1: the scope is checked before the body, the body before the schema, the schema before the existence', async () => {
  const readonly = await w.key(owner, 'readonly')
  const missing = 'PATCH /api/v1/sites/00000000-0000-7000-8000-000000000000'
  expect((await w.call(missing, { key: readonly, bytes: Buffer.from('{'), type: 'text/plain' })).status).toBe(403)
  expect((await w.call(missing, { key: owner.key, bytes: Buffer.from('{'), type: 'text/plain' })).status).toBe(415)
  expect((await w.call(missing, { key: owner.key, bytes: Buffer.from('{'), type: 'application/json' })).status).toBe(400)
  expect((await w.call(missing, { key: owner.key, json: { name: 5 } })).status).toBe(422)
  expect((await w.call(missing, { key: owner.key, json: { name: 'x' } })).status).toBe(404)
})

test('C02: unknown paths and wrong methods get a message', async () => {
  const unknown = await w.call('GET /api/v1/nothing', { key: owner.key })
  expect([unknown.status, Object.keys(unknown.body)]).toEqual([404, ['message']])
  const method = await w.call('PUT /api/v1/sites', { key: owner.key })
  expect([method.status, method.headers.get('allow')?.split(', ').sort()]).toEqual([405, ['GET', 'HEAD', 'POST']])
})

test('C02: a path that is one operation is not the id of another', async () => {
  const paths = [
    ['/api/v1/forms/submissions/export', ['GET', 'HEAD']],
    ['/api/v1/sites/00000000-0000-7000-8000-000000000000/access/emails/bulk', ['POST']],
  ] as const
  for (const [path, methods] of paths) {
    for (const wrong of ['DELETE', 'PUT']) {
      const { status, headers } = await w.call(`${wrong} ${path}`, { key: owner.key })
      expect([path, status, headers.get('allow')?.split(', ').sort()]).toEqual([path, 405, methods])
    }
  }
  expect((await w.call('DELETE /api/v1/forms/submissions/exports', { key: owner.key })).status).toBe(404)
})

test('/healthz tells that the process lives, /readyz whether it can serve, and names dependencies to the operator only', async () => {
  expect((await w.call('GET /healthz')).body).toEqual({ ok: true })
  expect((await w.call('GET /readyz')).body).toEqual({ ok: true })
  expect((await w.call('GET /readyz', { key: operatorToken })).body).toEqual({
    ok: true,
    dependencies: { database: 'up', temporal: 'up' },
    attention: { dead_workflow_messages: 0, stuck_activities: 0 },
  })
})

test.each([
  ['GET', {}, 405],
  ['DELETE', {}, 405],
])('J01: %s on the tool server is refused', async (method, options, expected) => {
  expect((await w.call(`${method} /mcp`, { key: owner.key, ...options })).status).toBe(expected)
})

test('J01: a bare tools/call works with the headers that curl sends', async () => {
  const json = { jsonrpc: '2.0', id: 'a', method: 'tools/call', params: { name: 'list_sites', arguments: {} } }
  const { status, headers, body } = await w.call('POST /mcp', { key: owner.key, json, headers: { accept: '*/*' } })
  expect([status, headers.get('content-type')?.split(';')[0], body.id]).toEqual([200, 'application/json', 'a'])
  expect(body.result.structuredContent.items).toEqual(expect.any(Array))
})

test('J01: an unknown tool is a protocol error, wrong arguments are an answer that an agent can mend', async () => {
  const call = (name: string, args: object) =>
    w.call('POST /mcp', {
      key: owner.key,
      json: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } },
    })
  expect((await call('no_such_tool', {})).body.error.code).toBe(-32602)
  const wrong = (await call('create_site', { name: 'x', subdomain: 7 })).body.result
  expect([wrong.isError, wrong.structuredContent]).toEqual([true, { status: 422, message: expect.stringContaining('subdomain') }])
})

test('J01: the tool server refuses pages of other origins', async () => {
  const json = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
  expect((await w.call('POST /mcp', { key: owner.key, json, headers: { origin: 'https://evil.example' } })).status).toBe(403)
  expect((await w.call('POST /mcp', { key: owner.key, json, headers: { origin: w.config.urls.base } })).status).toBe(200)
})
