import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { formerSubdomainPeriodMs } from '../../core/limits.ts'
import { aroundTheEnd, deployFiles, makeSite, page, randomName } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

const dayMs = 86_400_000

const pathOf = (id: string) => `/api/v1/sites/${id}/subdomain-change`
const change = (w: World, { key }: Pick<TestProject, 'key'>, id: string, subdomain: unknown) =>
  w.call(`POST ${pathOf(id)}`, { key, json: { subdomain } })
const cancel = (w: World, { key }: Pick<TestProject, 'key'>, id: string) => w.call(`DELETE ${pathOf(id)}`, { key })
const create = (w: World, { key }: TestProject, subdomain: string) =>
  w.call('POST /api/v1/sites', { key, json: { name: 'x', subdomain } })
const read = async (w: World, { key }: TestProject, id: string) => (await w.call(`GET /api/v1/sites/${id}`, { key })).body
const trash = (w: World, { key }: TestProject, id: string) => w.call(`DELETE /api/v1/sites/${id}`, { key })
const restore = (w: World, { key }: TestProject, id: string) => w.call(`POST /api/v1/sites/${id}/restore`, { key })
const setProject = (w: World, project: TestProject, json: object) =>
  w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json })

describe('a change of the subdomain', () => {
  let w: World
  let owner: TestProject
  beforeAll(async () => {
    w = await world()
    owner = await w.project()
  })
  afterAll(() => w?.[Symbol.asyncDispose]())

  test('U01 U02 E4 E13: reserves the name at once and says when it comes; every answer about the site shows it', async () => {
    const site = await makeSite(w, owner)
    const name = randomName()
    const { status, body } = await change(w, owner, site.id, name.toUpperCase())
    expect([status, body]).toEqual([
      200,
      {
        site_id: site.id,
        subdomain: site.subdomain,
        pending_subdomain: name,
        requested_at: expect.any(String),
        switch_at: new Date(Date.parse(body.requested_at) + dayMs).toISOString(),
      },
    ])
    const pending_subdomain = { subdomain: name, switch_at: body.switch_at }
    expect(await read(w, owner, site.id)).toEqual({ ...site, pending_subdomain })
    const listed = (await w.call('GET /api/v1/sites', { key: owner.key })).body.find((one: any) => one.id === site.id)
    const patched = await w.call(`PATCH /api/v1/sites/${site.id}`, { key: owner.key, json: { name: 'y' } })
    const json = { enabled: false }
    const switched = await w.call(`POST /api/v1/sites/${site.id}/enabled`, { key: owner.key, json })
    for (const shown of [listed, patched.body, switched.body]) expect(shown.pending_subdomain).toEqual(pending_subdomain)
    const refused = await create(w, await w.project(), name)
    expect([refused.status, refused.body.message]).toEqual([409, expect.stringContaining('taken')])
    expect((await change(w, owner, (await makeSite(w, owner)).id, name)).status).toBe(409)
  })

  test('U03: the owner gets a mail with both addresses, the time, and how to cancel', async () => {
    const site = await makeSite(w, owner)
    const name = randomName()
    const { switch_at } = (await change(w, owner, site.id, name)).body
    const mails = await w.db.selectFrom('mails').selectAll().where('text', 'like', `%${name}%`).execute()
    expect(mails).toHaveLength(1)
    expect(mails[0]).toMatchObject({ project_id: owner.id, recipient: 'owner@example.com', sender: w.config.mail.from })
    const text = mails[0]?.text
    expect(text).toContain(site.url)
    expect(text).toContain(`http://${name}.plinth.localhost:8080`)
    expect(text).toContain(switch_at.slice(11, 16))
    expect(text).toContain(`DELETE ${pathOf(site.id)}`)
  })

  test('U04 A04: an editor cancels it; the name is free again, and a new change is possible at once', async () => {
    const editor = { key: await w.key(owner, 'editor') }
    const site = await makeSite(w, owner)
    const name = randomName()
    expect((await change(w, editor, site.id, name)).status).toBe(403)
    await change(w, owner, site.id, name)
    const { status, body } = await cancel(w, editor, site.id)
    const nothing = { pending_subdomain: null, requested_at: null, switch_at: null }
    expect([status, body]).toEqual([200, { site_id: site.id, subdomain: site.subdomain, ...nothing }])
    expect(await read(w, owner, site.id)).toEqual(site)
    expect((await create(w, await w.project(), name)).status).toBe(200)
    const again = await cancel(w, editor, site.id)
    expect([again.status, again.body.message]).toEqual([404, expect.stringContaining('pending')])
    expect((await change(w, owner, site.id, name)).status).toBe(409)
    expect((await change(w, owner, site.id, randomName())).status).toBe(200)
  })

  test('E38: after three cancelled changes the next is a 429 until 7 days after the first of them, and mails nobody', async () => {
    const project = await w.project()
    const site = await makeSite(w, project)
    for (let count = 0; count < 3; count++) {
      expect((await change(w, project, site.id, randomName())).status).toBe(200)
      expect((await cancel(w, project, site.id)).status).toBe(200)
    }
    const refused = await change(w, project, site.id, randomName())
    expect([refused.status, refused.body.message]).toEqual([429, expect.stringContaining('UTC')])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan((7 * dayMs - 600_000) / 1000)
    const mails = await w.db.selectFrom('mails').select('id').where('project_id', '=', project.id).execute()
    expect(mails).toHaveLength(3)
    expect((await change(w, project, (await makeSite(w, project)).id, randomName())).status).toBe(200)
    const cancelled_at = new Date(Date.now() - 7 * dayMs)
    const ofSite = w.db.updateTable('subdomain_changes').where('site_id', '=', site.id)
    await ofSite.set({ cancelled_at }).execute()
    expect((await change(w, project, site.id, randomName())).status).toBe(200)
  })

  test('E38: changes that the trash has cancelled count as well', async () => {
    const project = await w.project()
    const site = await makeSite(w, project)
    for (let count = 0; count < 3; count++) {
      await change(w, project, site.id, randomName())
      await trash(w, project, site.id)
      await restore(w, project, site.id)
    }
    expect((await change(w, project, site.id, randomName())).status).toBe(429)
  })

  test('U05: is possible once in 7 days, counted from the last one that was not cancelled', async () => {
    const site = await makeSite(w, owner)
    const first = (await change(w, owner, site.id, randomName())).body
    const second = await change(w, owner, site.id, randomName())
    expect([second.status, second.body.message]).toEqual([409, expect.stringContaining('cancel_site_subdomain_change')])
    // as the workflow leaves it
    const ofSite = w.db.updateTable('subdomain_changes').where('site_id', '=', site.id)
    await ofSite.set({ switched_at: new Date(), requested_at: new Date(Date.now() - 7 * dayMs + 60_000) }).execute()
    const third = await change(w, owner, site.id, randomName())
    expect([third.status, third.body.message]).toEqual([409, expect.stringContaining('UTC')])
    await w.db.deleteFrom('subdomains').where('subdomain', '=', first.pending_subdomain).execute()
    await ofSite.set({ requested_at: new Date(Date.now() - 7 * dayMs) }).execute()
    expect((await change(w, owner, site.id, randomName())).status).toBe(200)
  })

  test.each([
    ['U06 S03', 'free', 'A_b!', 400],
    ['U06 S03', 'free', '-x-abcdef', 400],
    ['U06 S03', 'free', 'a'.repeat(64), 400],
    ['U06 S03', 'free', 'abcd', 400],
    ['U06 S03', 'free', undefined, 400],
    ['U06 S04', 'free', 'Dashboard', 409],
    ['U06 S05', 'free', 'c2345678', 400],
    ['U06 S05', 'start', 'c2345678', 200],
    ['C02', 'free', 7, 422],
  ] as const)('%s: on the %s plan a change to %j is answered %i', async (_row, plan, name, expected) => {
    const project = await w.project(plan)
    const site = await makeSite(w, project)
    const { status, body } = await change(w, project, site.id, name)
    expect([status, expected === 200 || /\w/.test(body.message)]).toEqual([expected, true])
    if (expected !== 200) expect(await read(w, project, site.id)).toEqual(site)
  })

  test('to the name that the site has is refused with 409, for a suspended project with 402', async () => {
    const project = await w.project()
    const site = await makeSite(w, project)
    const same = await change(w, project, site.id, site.subdomain)
    expect([same.status, same.body.message]).toEqual([409, expect.stringContaining('already')])
    await setProject(w, project, { suspended: true })
    const name = randomName()
    expect((await change(w, project, site.id, name)).status).toBe(402)
    expect((await create(w, owner, name)).status).toBe(200)
  })

  test('J03: the tools change and cancel; changing asks for confirm', async () => {
    const site = await makeSite(w, owner)
    const input = { site_id: site.id, subdomain: randomName() }
    expect((await w.tool('change_site_subdomain', input, owner.key)).structuredContent.status).toBe(400)
    const { structuredContent } = await w.tool('change_site_subdomain', { ...input, confirm: true }, owner.key)
    expect(structuredContent).toMatchObject({ site_id: site.id, pending_subdomain: input.subdomain })
    const cancelled = await w.tool('cancel_site_subdomain_change', { site_id: site.id }, owner.key)
    expect(cancelled.structuredContent).toMatchObject({ site_id: site.id, pending_subdomain: null })
  })

  test('E12: is cancelled when the site is trashed, and its name is free', async () => {
    const site = await makeSite(w, owner)
    const name = randomName()
    await change(w, owner, site.id, name)
    expect((await trash(w, owner, site.id)).body.pending_subdomain).toBeNull()
    expect((await create(w, owner, name)).status).toBe(200)
    await restore(w, owner, site.id)
    expect((await read(w, owner, site.id)).pending_subdomain).toBeNull()
    expect((await change(w, owner, site.id, randomName())).status).toBe(200)
  })

  test('of many who want one name at once, sites to be made or to be renamed, one gets it', async () => {
    for (let round = 0; round < 4; round++) {
      const name = randomName()
      const projects = await Promise.all([w.project(), w.project(), w.project()])
      const sites = await Promise.all(projects.map((project) => makeSite(w, project)))
      const all = await Promise.all([
        ...projects.map((project, i) => change(w, project, sites[i]?.id, name)),
        ...projects.map((project) => create(w, project, name)),
      ])
      expect(all.map((answer) => answer.status).sort()).toEqual([200, 409, 409, 409, 409, 409])
    }
  })

  test('of many changes of one site at once one is made, and of many cancellations', async () => {
    const site = await makeSite(w, owner)
    const five = Array.from({ length: 5 }, () => randomName())
    const changes = await Promise.all(five.map((name) => change(w, owner, site.id, name)))
    expect(changes.map((answer) => answer.status).sort()).toEqual([200, 409, 409, 409, 409])
    const cancels = await Promise.all(five.map(() => cancel(w, owner, site.id)))
    expect(cancels.map((answer) => answer.status).sort()).toEqual([200, 404, 404, 404, 404])
    const held = await w.db.selectFrom('subdomains').select(['subdomain', 'kind']).where('site_id', '=', site.id).execute()
    expect(held).toEqual([{ subdomain: site.subdomain, kind: 'current' }])
  })
})

describe('when the time of a change comes', () => {
  const delayMs = 400
  let w: World
  let owner: TestProject
  beforeAll(async () => {
    const env = { PLINTH_SUBDOMAIN_SWITCH_DELAY: `${delayMs}ms`, PLINTH_SUBDOMAIN_CHANGE_INTERVAL: '0ms' }
    w = await world({ edge: true, env })
    owner = await w.project()
  })
  afterAll(() => w?.[Symbol.asyncDispose]())

  const addressOf = (subdomain: string) => `http://${subdomain}.plinth.localhost:8080`
  const has = (id: string, subdomain: string) => expect.poll(async () => (await read(w, owner, id)).subdomain).toBe(subdomain)
  const answers = (subdomain: string, path = '/') =>
    expect.poll(async () => {
      const { status, headers, body } = await w.visit(subdomain, path)
      return status === 200 ? body : [status, headers.location]
    })
  async function liveSite(): Promise<any> {
    const site = await makeSite(w, owner)
    await deployFiles(w, owner, site.id, [page(`site ${site.id}`)])
    await answers(site.subdomain).toContain(site.id)
    return site
  }
  async function move(id: string, name: string): Promise<void> {
    expect((await change(w, owner, id, name)).status).toBe(200)
    await has(id, name)
  }

  test('U02 E13: the old address serves until then, and redirects with path and query after it', async () => {
    const site = await liveSite()
    const name = randomName()
    const { switch_at } = (await change(w, owner, site.id, name)).body
    while (Date.now() < Date.parse(switch_at) - 100) {
      expect((await w.visit(site.subdomain)).body).toContain(site.id)
      expect((await w.visit(name)).status).toBe(404)
    }
    await has(site.id, name)
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(switch_at))
    const after = await read(w, owner, site.id)
    expect(after).toMatchObject({ subdomain: name, url: addressOf(name), pending_subdomain: null })
    await answers(name).toContain(site.id)
    await answers(site.subdomain, '/a%20b/?q=1&r=%2F').toEqual([301, `${addressOf(name)}/a%20b/?q=1&r=%2F`])
    for (const project of [owner, await w.project()]) expect((await create(w, project, site.subdomain)).status).toBe(409)
    await trash(w, owner, site.id)
    await answers(site.subdomain).toEqual([404, undefined])
    await restore(w, owner, site.id)
    await answers(site.subdomain).toEqual([301, `${addressOf(name)}/`])
  })

  test('a former name that the site takes back redirects until then, and there is no loop', async () => {
    const site = await liveSite()
    const [first, second, third] = [site.subdomain, randomName(), randomName()]
    await move(site.id, second)
    await move(site.id, third)
    await answers(first).toEqual([301, `${addressOf(third)}/`])
    await change(w, owner, site.id, first)
    expect((await create(w, owner, first)).status).toBe(409)
    // whatever makes the edge read the site again
    await w.call(`POST /api/v1/sites/${site.id}/enabled`, { key: owner.key, json: { enabled: true } })
    expect([(await w.visit(first)).status, (await w.visit(second)).status]).toEqual([301, 301])
    await has(site.id, first)
    await answers(first).toContain(site.id)
    for (const former of [second, third]) await answers(former).toEqual([301, `${addressOf(first)}/`])
    await change(w, owner, site.id, second)
    expect((await cancel(w, owner, site.id)).status).toBe(200)
    const kinds = await w.db.selectFrom('subdomains').select(['subdomain', 'kind']).where('site_id', '=', site.id).execute()
    expect(Object.fromEntries(kinds.map((row) => [row.subdomain, row.kind]))).toEqual({
      [first]: 'current',
      [second]: 'former',
      [third]: 'former',
    })
  })

  test('U04: a change that is cancelled at the last moment happens wholly or not at all', async () => {
    const moments = aroundTheEnd()
    for (let round = 0; round < 6; round++) {
      const site = await makeSite(w, owner)
      const name = randomName()
      const { switch_at } = (await change(w, owner, site.id, name)).body
      await moments.next(switch_at)
      const { status } = await cancel(w, owner, site.id)
      moments.tell(status === 200)
      expect([200, 404]).toContain(status)
      const now = await read(w, owner, site.id)
      expect(now).toMatchObject({ subdomain: status === 200 ? site.subdomain : name, pending_subdomain: null })
      expect((await create(w, owner, name)).status).toBe(status === 200 ? 200 : 409)
      expect((await create(w, owner, site.subdomain)).status).toBe(409)
    }
  })

  test('after 30 days the old name redirects no more, and others may take it', async () => {
    const site = await liveSite()
    const name = randomName()
    await move(site.id, name)
    const stranger = await w.project()
    expect((await create(w, stranger, site.subdomain)).status).toBe(409)
    w.advance(formerSubdomainPeriodMs)
    const taken = await create(w, stranger, site.subdomain)
    expect(taken.status).toBe(200)
    await deployFiles(w, stranger, taken.body.id, [page('another site')])
    await answers(site.subdomain).toContain('another site')
    await answers(name).toContain(site.id)
  })
})
