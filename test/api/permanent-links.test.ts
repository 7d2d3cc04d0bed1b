import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { defaultPlans, type PlanName } from '../../core/plans.ts'
import { createPermanentTokens } from '../../infra/crypto/permanent-tokens.ts'
import { deployFiles, makeSite, page } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'

const plans = { ...defaultPlans, start: { ...defaultPlans.start, inactive_deploys: 2, deploys_per_hour: null } }

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ plans, edge: true })
  owner = await w.project('start')
})
afterAll(() => w[Symbol.asyncDispose]())

const patch = (site: { id: string }, json: object, project = owner) =>
  w.call(`PATCH /api/v1/sites/${site.id}`, { key: project.key, json })
const change = (project: TestProject, json: object) =>
  w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json })
const get = async (deploy: { id: string }, project = owner) =>
  (await w.call(`GET /api/v1/deploys/${deploy.id}`, { key: project.key })).body
const until = (url: string, status: number) => expect.poll(async () => (await w.open(url)).status).toBe(status)

/** A site with permanent links, and its first deploy. */
async function linkedSite(text: string, project = owner) {
  const site = await makeSite(w, project)
  expect((await patch(site, { permanent_links: true }, project)).status).toBe(200)
  const deploy = await deployFiles(w, project, site.id, [page(text)])
  return { site, deploy }
}

describe('E34: permanent links', () => {
  test('are off at first, and no deploy has one', async () => {
    const site = await makeSite(w, owner)
    const deploy = await deployFiles(w, owner, site.id, [page('x')])
    expect([site.permanent_links, deploy.permanent_url]).toEqual([false, null])
  })

  test('show every deploy whose files are kept at an origin of its own, also after others are live', async () => {
    const { site, deploy: first } = await linkedSite('the first')
    const { hostname, port } = new URL(w.config.urls.preview)
    expect(first.permanent_url).toMatch(new RegExp(`^http://[a-z2-7]{52}\\.${hostname}:${port}/$`))
    const second = await deployFiles(w, owner, site.id, [page('the second')])
    const unpublished = await deployFiles(w, owner, site.id, [page('the third')], false)
    for (const [deploy, text] of [
      [first, 'the first'],
      [second, 'the second'],
      [unpublished, 'the third'],
    ]) {
      await until(deploy.permanent_url, 200)
      expect((await w.open(deploy.permanent_url)).body).toContain(text)
    }
    const listed = (await w.call(`GET /api/v1/sites/${site.id}/deploys`, { key: owner.key })).body
    const urls = [unpublished, second, first].map((deploy) => deploy.permanent_url)
    expect(listed.map((deploy: any) => deploy.permanent_url)).toEqual(urls)
    expect(new Set(urls).size).toBe(3)
  })

  test('begin for earlier deploys, too, when the option is switched on', async () => {
    const site = await makeSite(w, owner)
    const deploy = await deployFiles(w, owner, site.id, [page('earlier')])
    const tool = await w.tool('update_site', { site_id: site.id, permanent_links: true }, owner.key)
    expect(tool.structuredContent.permanent_links).toBe(true)
    const url = (await get(deploy)).permanent_url
    await until(url, 200)
    expect((await patch(site, { permanent_links: true })).status).toBe(200)
    expect((await get(deploy)).permanent_url).toBe(url)
  })

  test('answer with the headers of a preview', async () => {
    const { deploy } = await linkedSite('headers')
    await until(deploy.permanent_url, 200)
    const { headers } = await w.open(deploy.permanent_url)
    expect(headers['cache-control']).toBe('private, no-store')
    expect(headers['x-robots-tag']).toBe('noindex')
    expect(headers['content-security-policy']).toBeUndefined()
  })

  test('stay when the preview link of the deploy ends with its activation', async () => {
    const { site } = await linkedSite('live')
    const next = await deployFiles(w, owner, site.id, [page('next')], false)
    const preview = (await w.call(`POST /api/v1/deploys/${next.id}/preview`, { key: owner.key })).body.url
    await until(preview, 200)
    await w.call(`POST /api/v1/deploys/${next.id}/activate`, { key: owner.key })
    await until(preview, 404)
    expect((await w.open(next.permanent_url)).body).toContain('next')
    expect((await get(next)).permanent_url).toBe(next.permanent_url)
  })

  test('end with a deletion of the files, and with the retention of the plan', async () => {
    const { site, deploy: first } = await linkedSite('one')
    const second = await deployFiles(w, owner, site.id, [page('two')])
    await until(first.permanent_url, 200)
    expect((await w.call(`DELETE /api/v1/deploys/${first.id}`, { key: owner.key })).status).toBe(200)
    await until(first.permanent_url, 404)
    expect((await get(first)).permanent_url).toBeNull()
    for (const text of ['three', 'four', 'five']) await deployFiles(w, owner, site.id, [page(text)])
    await until(second.permanent_url, 404)
    await expect.poll(async () => (await get(second)).permanent_url).toBeNull()
  })

  test('end for good when the option is switched off: later ones have other addresses', async () => {
    const { site, deploy } = await linkedSite('here today')
    await until(deploy.permanent_url, 200)
    expect((await patch(site, { permanent_links: false })).body.permanent_links).toBe(false)
    await until(deploy.permanent_url, 404)
    expect((await get(deploy)).permanent_url).toBeNull()
    await patch(site, { permanent_links: false })
    await patch(site, { permanent_links: true })
    const again = (await get(deploy)).permanent_url
    expect(again).not.toBe(deploy.permanent_url)
    await until(again, 200)
    expect((await w.open(deploy.permanent_url)).status).toBe(404)
  })

  test('pause while the plan has none, and while the project is suspended or the site in the trash', async () => {
    const project = await w.project('pro')
    const { site, deploy } = await linkedSite('paused', project)
    const url = deploy.permanent_url
    await until(url, 200)
    await change(project, { plan: 'free' })
    await until(url, 404)
    expect((await get(deploy, project)).permanent_url).toBeNull()
    await change(project, { plan: 'start' })
    await until(url, 200)
    await change(project, { suspended: true })
    await until(url, 503)
    await change(project, { suspended: false })
    await until(url, 200)
    await w.call(`DELETE /api/v1/sites/${site.id}`, { key: project.key, json: { confirm: true } })
    await until(url, 404)
    await w.call(`POST /api/v1/sites/${site.id}/restore`, { key: project.key })
    await until(url, 200)
    await w.call(`POST /api/v1/sites/${site.id}/enabled`, { key: project.key, json: { enabled: false } })
    expect((await w.open(url)).status).toBe(200)
  })

  test.each<[string, PlanName, object, string]>([
    ['the plan Free', 'free', {}, 'plan_permanent_links'],
    ['a suspended project', 'start', { suspended: true }, 'suspended'],
  ])('E38: %s is refused with 402, and may switch them off', async (_what, plan, more, code) => {
    const project = await w.project(plan)
    const site = await makeSite(w, project)
    await change(project, { plan, ...more })
    const refused = await patch(site, { permanent_links: true, name: 'not taken' }, project)
    expect([refused.status, refused.headers.get('plinth-error')]).toEqual([402, code])
    if (plan === 'free') expect(refused.body.message).toContain('Start')
    expect((await patch(site, { permanent_links: false }, project)).body).toMatchObject({
      permanent_links: false,
      name: 'A site',
    })
  })

  test('do not open with another signature, another generation or a deploy of a site without them', async () => {
    const { deploy } = await linkedSite('signed')
    await until(deploy.permanent_url, 200)
    const plain = await makeSite(w, owner)
    const other = await deployFiles(w, owner, plain.id, [page('closed')])
    const tokens = createPermanentTokens(Buffer.alloc(32, 'key'))
    const forged = createPermanentTokens(Buffer.alloc(32, 'another key'))
    const { hostname } = new URL(deploy.permanent_url)
    const token = hostname.slice(0, 52)
    expect(tokens(deploy.id, 1)).toBe(token)
    const last = token.endsWith('a') ? 'b' : 'r'
    for (const wrong of [forged(deploy.id, 1), tokens(deploy.id, 2), tokens(other.id, 1), `${token.slice(0, -1)}${last}`]) {
      expect([wrong, (await w.open(deploy.permanent_url.replace(token, wrong))).status]).toEqual([wrong, 404])
    }
  })
})
