import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deployFiles, makeSite, page, randomName } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

// What happens when a caller sends the same, or too much, to two api processes at once.

let w: World
let bases: readonly [string, string]
beforeAll(async () => {
  w = await world()
  bases = [w.base, await w.openSecondApi()]
})
afterAll(() => w?.[Symbol.asyncDispose]())

/** Sends requests at once, every second one to the second process; answers their statuses in order of size. */
async function atOnce(count: number, endpoint: string, { key }: TestProject, json?: () => object): Promise<number[]> {
  const [method = '', path = ''] = endpoint.split(' ')
  const headers = { authorization: `Bearer ${key}`, ...(json && { 'content-type': 'application/json' }) }
  const statuses = Array.from({ length: count }, async (_, index) => {
    const body = json && JSON.stringify(json())
    const response = await fetch(`${bases[index % 2]}${path}`, { method, headers, ...(body !== undefined && { body }) })
    await response.arrayBuffer()
    return response.status
  })
  return (await Promise.all(statuses)).toSorted()
}
const times = (count: number, status: number) => Array<number>(count).fill(status)

describe('check 85: over two api processes', () => {
  test('exactly the deploys of an hour are accepted', async () => {
    const project = await w.project('free')
    const site = await makeSite(w, project)
    const endpoint = `POST /api/v1/sites/${site.id}/deploy-files`
    const statuses = await atOnce(16, endpoint, project, () => ({ files: [page(randomName())] }))
    expect(statuses.slice(0, 10)).toEqual(times(10, 200))
    // a machine that is busy may answer that it is, before it counts
    for (const refused of statuses.slice(10)) expect([429, 503]).toContain(refused)
  })

  test('exactly as many sites are created as the plan allows', async () => {
    const project = await w.project('free')
    const statuses = await atOnce(8, 'POST /api/v1/sites', project, () => ({ name: 'x', subdomain: randomName() }))
    expect(statuses).toEqual([...times(3, 200), ...times(5, 402)])
  })

  test('exactly as many domains are added as the plan allows', async () => {
    const project = await w.project('start')
    const site = await makeSite(w, project)
    const add = () => ({ domain: `${randomName('d')}.example.com` })
    expect(await atOnce(9, `POST /api/v1/sites/${site.id}/domains`, project, add)).toEqual([...times(5, 200), ...times(4, 409)])
  })

  test('exactly three changes of a subdomain are cancelled', async () => {
    const project = await w.project()
    const site = await makeSite(w, project)
    const path = `/api/v1/sites/${site.id}/subdomain-change`
    let accepted = 0
    for (let round = 0; round < 5; round++) {
      const statuses = await atOnce(2, `POST ${path}`, project, () => ({ subdomain: randomName() }))
      accepted += statuses.filter((status) => status === 200).length
      await atOnce(2, `DELETE ${path}`, project)
    }
    expect(accepted).toBe(3)
  })
})

test('check 32: a deploy that is activated 20 times at once is live once, and every call is answered', async () => {
  const project = await w.project()
  const site = await makeSite(w, project)
  const first = await deployFiles(w, project, site.id, [page('first')])
  const second = await deployFiles(w, project, site.id, [page('second')])
  expect(await atOnce(20, `POST /api/v1/deploys/${first.id}/activate`, project)).toEqual(times(20, 200))
  const rows = await w.db.selectFrom('deploys').select(['id', 'status']).where('site_id', '=', site.id).orderBy('seq').execute()
  expect(rows).toEqual([
    { id: first.id, status: 'active' },
    { id: second.id, status: 'superseded' },
  ])
  expect((await w.call(`GET /api/v1/sites/${site.id}`, { key: project.key })).body.active_deploy_id).toBe(first.id)
})
