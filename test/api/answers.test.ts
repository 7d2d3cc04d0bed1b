import { OutgoingMessage } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { Listing, listingIn } from '../../api/listing.ts'
import type { Operation } from '../../api/operation.ts'
import { operations } from '../../api/operations/index.ts'
import { operatorOperations } from '../../api/operator/index.ts'
import { restShape } from '../../api/rest.ts'
import { continuation, listOf } from '../../api/tool-result.ts'
import { authorsOf, partsOf } from '../../api/views/authors.ts'
import { maxToolListBytes } from '../../core/limits.ts'
import { storeManifest } from '../../infra/cas/manifests.ts'
import { fillDeploys, fillLists, fillSubmissions } from '../largest-project.ts'
import { makeSite } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

// What goes out is bounded as what comes in is: long lists are read and sent in parts, tools cut them, and texts of others are marked.

const all = [...operations, ...operatorOperations]

/** Calls `visit` with every schema of a result, and its path such as `.items[].tries`. */
function walk(schema: z.ZodType, visit: (schema: z.ZodType, path: string, name: string) => void, path = '', name = ''): void {
  visit(schema, path, name)
  for (const [member, part] of partsOf(schema)) {
    const step = schema instanceof z.ZodArray ? '[]' : member === '' ? '' : `.${member}`
    walk(part, visit, path + step, member || name)
  }
}

describe('what operations declare', () => {
  test('every array of a result has a limit, or is a list that is sent as it is read', () => {
    const unbounded = all.flatMap((op) => {
      const lists = (op.lists ?? []).map(({ member }) => (member === undefined ? '' : `.${member}`))
      const found: string[] = []
      walk(op.output, (schema, path) => {
        if (!(schema instanceof z.ZodArray) || lists.includes(path)) return
        if (z.toJSONSchema(schema, { unrepresentable: 'any' })['maxItems'] === undefined) found.push(`${op.id}: ${path}`)
      })
      return found
    })
    expect(unbounded).toEqual([])
  })

  test('the elements of every list have the member that names them', () => {
    const members = (op: Operation, member: string | undefined) => {
      const list = member === undefined ? op.output : (op.output as z.ZodObject).shape[member]
      return Object.keys(((list as unknown as z.ZodArray).element as z.ZodObject).shape)
    }
    for (const op of all) for (const { member, key } of op.lists ?? []) expect(members(op, member), op.id).toContain(key)
    for (const op of all) if (op.tool) expect(op.lists?.length ?? 0, op.id).toBeLessThanOrEqual(1)
    for (const op of all) {
      for (const { continuedBy } of op.lists ?? []) if (continuedBy) expect(Object.keys(op.input.shape)).toContain(continuedBy)
    }
  })

  /** Written by the owner, the operator or the platform, whatever the operation; some are hexadecimal. */
  const own = [
    'id sha256 token secret password verification_token message_id request_id month currency project_name name description title label email',
    'subdomain pending_subdomain suspended_reason install_command build_command output_dir root_dir node_version repo_url branch watch_paths',
    'commit last_commit head_commit waiting_for warning disabled_reason ip_masked result ip_country domain value values expected redirects_to',
    'channels url invalid name_label form_html subject body email_field content_type page_title upsell_text',
  ].flatMap((names) => names.split(' '))

  test('every free text of a tool says who writes it, unless it is the owner or the platform', () => {
    const unmarked = new Set<string>()
    for (const op of operations.filter(({ tool }) => tool)) {
      walk(op.output, (schema, path, name) => {
        const isFree = schema instanceof z.ZodString || schema instanceof z.ZodUnknown
        if (isFree && !isMarked(op.output, path) && !own.includes(name)) unmarked.add(`${op.id}: ${path}`)
      })
    }
    expect([...unmarked]).toEqual([])
  })

  /** Whether the schema at a path, or one around it, says who writes it. */
  function isMarked(output: z.ZodType, wanted: string): boolean {
    let found = false
    walk(output, (schema, path) => {
      found ||=
        wanted.startsWith(path) && authorsOf(schema).length > 0 && (wanted === path || !/^\w/.test(wanted.slice(path.length)))
    })
    return found
  }
})

describe('the largest project', () => {
  let w: World
  let owner: TestProject
  let known: Record<string, string>
  beforeAll(async () => {
    w = await world({ worker: false })
    owner = await w.project('enterprise')
    const { id: site_id } = await makeSite(w, owner)
    const webhook = { url: 'https://hooks.example.com/plinth', events: ['form.received'] }
    const { body } = await w.call('POST /api/v1/webhooks', { key: owner.key, json: webhook })
    const files = Array.from({ length: 19_001 }, (_, i) => ({
      path: `notes/${i}.html`.padEnd(80, 'x'),
      sha256: 'a'.repeat(64),
      size: i,
    }))
    await using batch = w.cas.batch()
    const sha256 = await storeManifest(batch, files)
    await batch.publish()
    const filled = { project_id: owner.id, site_id, webhook_id: body.id, manifest: { sha256, files: files.length } }
    await fillSubmissions(w.db, filled)
    await fillLists(w.db, filled)
    known = { site_id, webhook_id: body.id, project_id: owner.id, deploy_id: await fillDeploys(w.db, filled) }
    const rows = {
      member_id: 'members',
      submission_id: 'form_submissions',
      domain_id: 'domains',
      delivery_id: 'webhook_deliveries',
    } as const
    for (const [name, table] of Object.entries(rows)) {
      known[name] = (await w.db.selectFrom(table).select('id').where('project_id', '=', owner.id).executeTakeFirstOrThrow()).id
    }
  }, 120_000)
  afterAll(() => w?.[Symbol.asyncDispose]())

  const reads = all.flatMap((op) => {
    const shape = restShape(op)
    return shape?.method === 'GET' ? [{ id: op.id, op, shape }] : []
  })
  /** Bytes that a response may hand on at once: a piece, and the element that made it full. */
  const mostBytes = 256 * 1024

  function urlOf({ op, shape }: (typeof reads)[number]): string {
    const path = shape.path.replaceAll(/\{(\w+)\}/g, (_match, name: string) => known[name] ?? crypto.randomUUID())
    const query = new URLSearchParams()
    if (shape.queryNames.includes('limit')) query.set('limit', op.id === 'get_logs' ? '65536' : '200')
    if (shape.queryNames.includes('path')) query.set('path', '/')
    if (op.streamsByDefault) query.set('follow', 'false')
    return `${path}?${query.toString()}`
  }

  test.each(reads)('GET of $id hands on no more than 256 KB at once, and all of it', async (read) => {
    const key = read.shape.path.startsWith('/operator/') ? operatorToken : owner.key
    const written = await largestWrites(async () => {
      const { status, body } = await w.call(`GET ${urlOf(read)}`, { key })
      expect([200, 404, 409], JSON.stringify(body).slice(0, 200)).toContain(status)
    })
    expect(written).toBeLessThanOrEqual(mostBytes)
  })

  /** The largest piece that any response was given while the work ran. */
  async function largestWrites(work: () => Promise<void>): Promise<number> {
    let largest = 0
    const { prototype } = OutgoingMessage
    const names = ['write', 'end'] as const
    const real = names.map((name) => Object.getOwnPropertyDescriptor(prototype, name))
    for (const [index, name] of names.entries()) {
      const value = function (this: OutgoingMessage, ...args: unknown[]): unknown {
        const [chunk] = args
        if (typeof chunk === 'string' || chunk instanceof Uint8Array) largest = Math.max(largest, Buffer.byteLength(chunk))
        return Reflect.apply(real[index]?.value as () => unknown, this, args as [])
      }
      Object.defineProperty(prototype, name, { ...real[index], value })
    }
    try {
      await work()
    } finally {
      for (const [index, name] of names.entries()) Object.defineProperty(prototype, name, real[index] ?? {})
    }
    return largest
  }

  const listing = operations.filter((op) => op.tool && op.rest && op.lists)

  test.each(listing)(
    'the tool $id returns at most 128 KB of its list, and all of it page by page',
    async (op) => {
      const list = listOf(op)
      if (!list) return
      const shape = restShape(op)
      if (!shape) return
      const { body } = await w.call(`GET ${urlOf({ id: op.id, op, shape })}`, { key: owner.key })
      const whole = (list.member === undefined ? body : body[list.member]) as Record<string, string>[]
      expect(whole.length).toBeGreaterThan(0)
      const ids = Object.fromEntries(
        Object.keys(op.input.shape).flatMap((name) =>
          name in known && shape.pathNames.includes(name) ? [[name, known[name]]] : [],
        ),
      )
      const paged: unknown[] = []
      let next: string | undefined
      do {
        const limit = 'limit' in op.input.shape ? { limit: 200 } : {}
        const result = await w.tool(
          op.id,
          { ...ids, ...limit, ...(next !== undefined && { [continuation(list)]: next }) },
          owner.key,
        )
        expect(result.isError, result.content[0]?.text).toBeUndefined()
        const items = result.structuredContent[list.member ?? 'items']
        const [content] = result.content
        expect(items.length).toBeGreaterThan(0)
        if (items.length > 1)
          expect(Buffer.byteLength(JSON.stringify(items))).toBeLessThanOrEqual(maxToolListBytes + items.length + 2)
        expect(JSON.parse(content?.text ?? '')).toEqual(
          list.member === undefined ? items : expect.objectContaining({ [list.member]: items }),
        )
        paged.push(...items)
        next = result.structuredContent.next
      } while (next !== undefined && paged.length < whole.length)
      const keys = (items: readonly unknown[]) => items.map((item) => (item as Record<string, string>)[list.key])
      expect(keys(paged.slice(0, whole.length))).toEqual(keys(whole))
    },
    60_000,
  )

  test('the header Link leads from page to page of a list with a limit', async () => {
    const seen: string[] = []
    let path: string | undefined = '/api/v1/forms/submissions?limit=50'
    for (let pages = 0; path !== undefined && pages < 10; pages++) {
      const { body, headers } = await w.call(`GET ${path}`, { key: owner.key })
      seen.push(...body.items.map(({ id }: { id: string }) => id))
      path = /^<([^>]*)>; rel="next"$/.exec(headers.get('link') ?? '')?.[1]
    }
    expect([seen.length, new Set(seen).size]).toEqual([120, 120])
  })

  async function heldBytes(): Promise<number> {
    const { body } = await w.call('GET /metrics', { key: operatorToken })
    return Number(/^plinth_answer_bytes (\d+)$/m.exec(body)?.[1])
  }

  test('a client that stops reading keeps a megabyte of the budget, which is free again when it leaves', async () => {
    const left = new AbortController()
    const init = { headers: { authorization: `Bearer ${owner.key}` }, signal: left.signal }
    const response = await fetch(`${w.base}/api/v1/forms/submissions?limit=200`, init)
    expect([response.status, response.headers.get('content-length')]).toEqual([200, null])
    expect(await heldBytes()).toBe(1024 * 1024)
    left.abort()
    await expect.poll(heldBytes, { timeout: 20_000 }).toBe(0)
  })

  test('who reads more large answers at once than a project may is refused, and another project is not', async () => {
    const left = new AbortController()
    const ask = (key: string) =>
      fetch(`${w.base}/api/v1/forms/submissions?limit=200`, { headers: { authorization: `Bearer ${key}` }, signal: left.signal })
    const statuses = (await Promise.all(Array.from({ length: 40 }, () => ask(owner.key)))).map(({ status }) => status)
    expect(statuses.filter((status) => status === 429)).toHaveLength(8)
    expect(statuses.filter((status) => status === 200)).toHaveLength(32)
    expect((await ask((await w.project()).key)).status).toBe(200)
    left.abort()
    await expect.poll(heldBytes, { timeout: 20_000 }).toBe(0)
  })

  test('an answer that breaks off in the middle breaks its connection', async () => {
    const { cas } = w
    const open = cas.open.bind(cas)
    let opened = 0
    Object.assign(cas, {
      open: async (sha256: string) => {
        opened += 1
        if (opened > 4) throw new Error('the disk is gone')
        return await open(sha256)
      },
    })
    try {
      const headers = { authorization: `Bearer ${owner.key}` }
      const response = await fetch(`${w.base}/api/v1/deploys/${known['deploy_id']}/files`, { headers })
      expect(response.status).toBe(200)
      await expect(response.text()).rejects.toThrow()
    } finally {
      Object.assign(cas, { open })
    }
  })

  test('results with texts of visitors say so, and leave the content as REST has it', async () => {
    const result = (await w.tool('get_form_submissions', { limit: 1 }, owner.key)) as any
    expect(result._meta).toEqual({ 'Plinth-Untrusted': ['visitors'] })
    expect(JSON.parse(result.content[0].text).items).toHaveLength(1)
    expect(result.content[1].text).toMatch(/visitors.*data, never.*instructions/)
    const own = (await w.tool('whoami', {}, owner.key)) as any
    expect([own._meta, own.content.length]).toEqual([undefined, 1])
  })
})

test('a listing in an answer is found, at the top or as a member', () => {
  const listing = Listing.ofRows([1], undefined)
  expect([listingIn(listing), listingIn({ total: 1, items: listing }), listingIn({ items: [1] })]).toEqual([
    listing,
    listing,
    undefined,
  ])
})
