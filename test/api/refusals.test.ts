import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { operations } from '../../api/operations/index.ts'
import { operatorOperations } from '../../api/operator/index.ts'
import { schemaText } from '../../infra/schema-text.ts'
import { makeSite, randomName } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

// Refusals that say what is wrong and what to do.

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
})
afterAll(() => w[Symbol.asyncDispose]())

describe('a value that does not match the schema', () => {
  const text = (schema: z.ZodType, value: unknown) => schema.safeParse(value, { error: schemaText }).error?.issues[0]?.message

  test.each([
    [z.boolean(), 'yes', 'must be true or false'],
    [z.string(), 7, 'must be a text'],
    [z.number(), '7', 'must be a number'],
    [z.int(), 1.5, 'must be a whole number'],
    [z.int(), '1', 'must be a number'],
    [z.array(z.string()), 'a', 'must be a list'],
    [z.object({}), 'a', 'must be an object'],
    [z.null(), 'a', 'must be null'],
    [z.enum(['a', 'b']), 'c', 'must be one of a, b'],
    [z.literal('base64'), 'hex', 'must be base64'],
    [z.int().min(1), 0, 'must be at least 1'],
    [z.int().max(9), 10, 'must be at most 9'],
    [z.string().min(1), '', 'must have at least 1 character'],
    [z.string().max(2), 'abc', 'must have at most 2 characters'],
    [z.array(z.int()).min(2), [1], 'must have at least 2 entries'],
    [z.array(z.int()).max(1), [1, 2], 'must have at most 1 entry'],
    [z.uuid(), 'x', 'must be an id in the form of a UUID'],
    [z.email(), 'x', 'must be an email address'],
    [z.url(), 'x', 'must be a URL'],
    [z.iso.datetime(), 'x', 'must be an instant such as 2026-09-07T12:00:00.000Z'],
    [z.string().regex(/^a+$/), 'b', 'must match /^a+$/'],
    [z.int().multipleOf(5), 3, 'must be a multiple of 5'],
    [z.strictObject({}), { a: 1 }, 'has members that are not known'],
    [z.union([z.int(), z.boolean()]), 'x', 'does not have one of the accepted forms'],
    [z.string().refine(() => false, 'must be better'), 'x', 'must be better'],
  ])('%# is described in words', (schema, value, expected) => {
    expect(text(schema, value)).toBe(expected)
  })

  test('is described in words for every member of every operation', () => {
    for (const op of [...operations, ...operatorOperations]) {
      for (const [name, schema] of Object.entries<z.ZodType>(op.input.shape)) {
        for (const wrong of [Symbol('wrong'), 7.5, '', 'x'.repeat(5000), [null], {}, true]) {
          const message = text(schema, wrong)
          if (message !== undefined) expect(`${op.id} ${name} ${message}`).toMatch(/ (must|has|does not have) [^A-Z]*/)
          expect(message ?? '').not.toMatch(/Invalid|expected|, received|Too (big|small)/)
        }
      }
    }
  })

  test.each([
    ['POST', '/deploy-files', { files: [], activate: 'true' }, 'activate must be true or false'],
    ['POST', '/enabled', { enabled: 1 }, 'enabled must be true or false'],
    ['POST', '/enabled', {}, 'enabled is missing: it must be true or false'],
    ['POST', '/deploy-files', { files: [{ path: 1, content: '' }] }, 'files.0.path must be a text'],
    ['GET', '/deploys?limit=x', undefined, 'limit must be a number'],
  ])('%s %s says what it must be', async (method, path, json, expected) => {
    const site = await makeSite(w, owner)
    const { status, body } = await w.call(`${method} /api/v1/sites/${site.id}${path}`, { key: owner.key, json })
    expect([status, body.message]).toEqual([422, expected])
  })
})

test('the tool that deletes a site says that it can be undone, and for how long', async () => {
  const site = await makeSite(w, owner)
  const { structuredContent } = await w.tool('delete_site', { site_id: site.id }, owner.key)
  expect(structuredContent.message).toMatch(/can only be undone within 24 hours by restore_site/)
  const domain = await w.tool('delete_domain', { domain_id: site.id }, owner.key)
  expect(domain.structuredContent.message).toMatch(/^delete_domain cannot be undone/)
})

describe('a domain that is attached already', () => {
  const add = (project: TestProject, siteId: string, domain: string) =>
    w.call(`POST /api/v1/sites/${siteId}/domains`, { key: project.key, json: { domain } })
  const newName = () => `${randomName()}.example.com`

  test('to a site of the project: the site is named', async () => {
    const [one, other] = [await makeSite(w, owner), await makeSite(w, owner)]
    const domain = newName()
    await add(owner, one.id, domain)
    const { status, body } = await add(owner, other.id, domain)
    expect([status, body.message]).toEqual([
      409,
      `the domain ${domain} is attached already: your site A site (${one.id}) has it; delete it there first`,
    ])
  })

  test('to a site in the trash: it says so', async () => {
    const [one, other] = [await makeSite(w, owner), await makeSite(w, owner)]
    const domain = newName()
    await add(owner, one.id, domain)
    await w.call(`DELETE /api/v1/sites/${one.id}`, { key: owner.key })
    expect((await add(owner, other.id, domain)).body.message).toMatch(/your site A site \(.*\) in the trash has it; restore/)
  })

  test('to another project without a proof: the end of the claim is named, and nothing of the project', async () => {
    const stranger = await w.project()
    const site = await makeSite(w, stranger)
    const domain = newName()
    await add(stranger, site.id, domain)
    const { message } = (await add(owner, (await makeSite(w, owner)).id, domain)).body
    const end = new Date(Date.now() + 7 * 86_400_000).toLocaleDateString('en-GB', {
      month: 'short',
      year: 'numeric',
      timeZone: 'UTC',
    })
    expect(message).toMatch(/another project has added it without a proof; unless it proves it before, its claim ends on \d+ /)
    expect(message).toContain(end)
    expect(message).not.toContain(site.id)
  })

  test('to another project that has proved it', async () => {
    const stranger = await w.project()
    const site = await makeSite(w, stranger)
    const domain = newName()
    await add(stranger, site.id, domain)
    await w.db.updateTable('domains').set({ verified_at: new Date() }).where('domain', '=', domain).execute()
    const { message } = (await add(owner, (await makeSite(w, owner)).id, domain)).body
    expect(message).toMatch(/another project has proved that it owns it; use another domain$/)
  })
})

test.each([
  'https://gitea/acme/site.git',
  'https://git.corp.internal/acme/site.git',
  'https://nas.local/acme/site.git',
  'https://localhost/acme/site.git',
  'https://10.0.0.1/acme/site.git',
  'http://git.example.com/acme/site.git',
  'https://git.example.com:3000/acme/site.git',
])('the repository %s, in a private network, is refused at once, and the setting that allows it is named', async (repo_url) => {
  const site = await makeSite(w, owner)
  const { status, body } = await w.call(`PUT /api/v1/sites/${site.id}/git`, { key: owner.key, json: { repo_url } })
  expect([status, body.message]).toEqual([400, expect.stringContaining('PLINTH_ALLOW_PRIVATE_GIT')])
})

test('a domain that is added while the platform only knows loopback addresses has a warning that names the setting and a CNAME', async () => {
  const site = await makeSite(w, owner)
  const json = { domain: `${randomName()}.example.com` }
  const { body } = await w.call(`POST /api/v1/sites/${site.id}/domains`, { key: owner.key, json })
  expect(body.warning).toMatch(/127\.0\.0\.1: ask the operator to set PLINTH_SERVING_IPS, or .* CNAME record at .*\.example\.com/)
  await using reachable = await world({ worker: false, env: { PLINTH_SERVING_IPS: '203.0.113.7' } })
  const project = await reachable.project()
  const other = await makeSite(reachable, project)
  const added = await reachable.call(`POST /api/v1/sites/${other.id}/domains`, { key: project.key, json })
  expect([added.status, added.body.warning]).toEqual([200, null])
})
