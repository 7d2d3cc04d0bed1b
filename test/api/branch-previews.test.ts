import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { defaultPlans } from '../../core/plans.ts'
import { hashPreviewToken } from '../../infra/crypto/preview-tokens.ts'
import { closeBranchPreview, showBranchPreview } from '../../services/previews/branch-previews.ts'
import { type Tx, transact } from '../../services/transact.ts'
import { createStorageActivities } from '../../workflows/activities/storage.ts'
import { deployFiles, makeSite, openPreview, page } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'

// What becomes of a link, with pushes and builds that are made by hand; pushes of forges are in branch-preview-pushes.test.ts.

const dayMs = 86_400_000
const plans = { ...defaultPlans, start: { ...defaultPlans.start, sites: null, inactive_deploys: 2, deploys_per_hour: null } }

let w: World
let owner: TestProject
beforeAll(async () => {
  w = await world({ plans, edge: true, env: { PLINTH_TRASH_PERIOD: '3s' } })
  owner = await w.project('start')
})
afterAll(() => w?.[Symbol.asyncDispose]())

let shiftMs = 0
const clock = () => new Date(Date.now() + shiftMs)
function advance(ms: number): void {
  shiftMs += ms
  w.advance(ms)
}
/** The step of the hourly sweep that ends what is too old. */
const sweep = () => createStorageActivities({ ...w, clock }).purgeExpired()

const call = (endpoint: string, key = owner.key) => {
  const [method, path] = endpoint.split(' ')
  return w.call(`${method} /api/v1/${path}`, { key })
}
const list = async (siteId: string): Promise<any[]> => (await call(`GET sites/${siteId}/git/previews`)).body
const getDeploy = async (id: string) => (await call(`GET deploys/${id}`)).body
const shows = (url: string, text: string) => expect.poll(async () => (await w.open(url)).body).toContain(text)
const isGone = (url: string) => expect.poll(async () => (await w.open(url)).status).toBe(404)

const inSite = <T>(siteId: string, work: (tx: Tx) => Promise<T>) =>
  transact(w, async (tx) => {
    await tx.selectFrom('sites').select('id').where('id', '=', siteId).forNoKeyUpdate().execute()
    return await work(tx)
  })

const pushed = (siteId: string, ref = 'feature', change: object = {}) =>
  openPreview(w, owner, siteId, { ref, ...change }, clock())

/** A deploy of the preview that is ready, and not shown yet. */
async function built(preview: { id: string; site_id: string }, text: string): Promise<any> {
  const deploy = await deployFiles(w, owner, preview.site_id, [page(text)], false)
  const change = { source_kind: 'git', git_preview_id: preview.id } as const
  await w.db.updateTable('deploys').set(change).where('id', '=', deploy.id).execute()
  return deploy
}

/** As the workflow of a deploy does when it is ready. */
const show = (deploy: { id: string; site_id: string }) =>
  inSite(deploy.site_id, async (tx) => {
    const row = await tx.selectFrom('deploys').selectAll().where('id', '=', deploy.id).executeTakeFirstOrThrow()
    return await showBranchPreview(tx, row, (id, generation) => hashPreviewToken(w.previewTokens(id, generation)), clock())
  })

async function shown(preview: { id: string; site_id: string }, text: string): Promise<any> {
  const deploy = await built(preview, text)
  expect(await show(deploy)).toBe('shown')
  return deploy
}

const closed = (siteId: string, ref = 'feature') =>
  inSite(siteId, (tx) => closeBranchPreview(tx, { site_id: siteId, ref }, clock()))

const linkOf = ({ id }: { id: string }) =>
  w.db.selectFrom('preview_links').selectAll().where('git_preview_id', '=', id).executeTakeFirst()

/** A site with the preview of a branch, and its link. */
async function linked(text: string): Promise<any> {
  const site = await makeSite(w, owner)
  const preview = await pushed(site.id)
  const deploy = await shown(preview, text)
  const [{ url }] = await list(site.id)
  return { site, preview, deploy, url }
}

describe('the link of a branch', () => {
  test('G04 E9: it opens without a key, shows the newest deploy, stays the same, and is not to be indexed or stored', async () => {
    const { site, preview, deploy, url } = await linked('first')
    expect(url).toMatch(new RegExp(`^${w.config.urls.preview}/[a-z2-7]{52}/$`))
    await shows(url, 'first')
    expect((await w.open(url)).headers).toMatchObject({
      'x-robots-tag': 'noindex',
      'cache-control': 'private, no-store',
      'referrer-policy': 'same-origin',
      'content-security-policy': 'sandbox',
    })
    const token = url.split('/').at(-2)
    const navigation = await w.open(url, { 'sec-fetch-dest': 'document' })
    expect([navigation.status, navigation.headers.location]).toEqual([
      307,
      `${w.config.urls.preview.replace('//', `//${token}.`)}/`,
    ])
    expect((await w.visit(site.subdomain)).body).not.toContain('first')

    const second = await shown(await pushed(site.id), 'second')
    await shows(url, 'second')
    expect(await list(site.id)).toEqual([
      {
        id: preview.id,
        ref: 'feature',
        branch: 'feature',
        pull_request: null,
        from_fork: false,
        approved: true,
        url,
        deploy_id: second.id,
        newest_deploy_id: second.id,
        head_commit: null,
        state: 'ready',
        updated_at: expect.any(String),
        expires_at: expect.any(String),
      },
    ])
    expect([(await getDeploy(deploy.id)).preview_url, (await getDeploy(second.id)).preview_url]).toEqual([null, url])
    expect((await call(`GET sites/${site.id}/deploys`)).body.map((row: any) => row.preview_url)).toEqual([url, null])
  })

  test('G04: an older build that ends later does not replace a newer one, whatever became of that', async () => {
    const { site, preview, deploy, url } = await linked('oldest')
    const older = await built(preview, 'older')
    const newer = await shown(preview, 'newer')
    expect(await show(older)).toBe('overtaken')
    expect([await show(newer), await show(deploy)]).toEqual(['shown', 'overtaken'])
    await shows(url, 'newer')
    expect((await call(`DELETE deploys/${newer.id}`)).status).toBe(200)
    expect(await show(older)).toBe('closed')
    expect(await list(site.id)).toEqual([])
    await pushed(site.id)
    expect(await show(older)).toBe('overtaken')
  })

  test('the newest deploy decides about the state, and the link shows the one before it until then', async () => {
    const { site, preview, deploy, url } = await linked('before')
    const next = await built(preview, 'after')
    const become = async (status: 'queued' | 'building' | 'failed' | 'ready') => {
      await w.db.updateTable('deploys').set({ status }).where('id', '=', next.id).execute()
      return await list(site.id)
    }
    const before = { url, deploy_id: deploy.id, newest_deploy_id: next.id }
    for (const status of ['queued', 'building', 'ready'] as const) {
      expect(await become(status)).toMatchObject([{ ...before, state: 'building' }])
    }
    expect(await become('failed')).toMatchObject([{ ...before, state: 'failed' }])
    await shows(url, 'before')
  })

  test('P01 P04: the own link of a deploy goes before that of its branch, and revoking it leaves that one', async () => {
    const { deploy, url } = await linked('two links')
    const own = (await call(`POST deploys/${deploy.id}/preview`)).body.url
    expect(own).not.toBe(url)
    expect((await getDeploy(deploy.id)).preview_url).toBe(own)
    for (const link of [own, url]) await shows(link, 'two links')
    await call(`DELETE deploys/${deploy.id}/preview`)
    await isGone(own)
    await shows(url, 'two links')
    expect((await getDeploy(deploy.id)).preview_url).toBe(url)
  })

  test('X02: publishing what it shows leaves the link, which is of the branch', async () => {
    const { site, deploy, url } = await linked('published')
    expect((await call(`POST deploys/${deploy.id}/activate`)).body).toMatchObject({ status: 'active', preview_url: null })
    await expect.poll(async () => (await w.visit(site.subdomain)).body).toContain('published')
    await shows(url, 'published')
    expect(await list(site.id)).toMatchObject([{ state: 'ready', url }])
  })

  test('a token that another secret key had made opens no more, and the next deploy mends the link', async () => {
    const { site, preview, deploy, url } = await linked('old key')
    await w.db
      .updateTable('preview_links')
      .set({ token_sha256: 'a'.repeat(64) })
      .where('id', '=', preview.id)
      .execute()
    expect(await list(site.id)).toMatchObject([{ state: 'empty', url: null }])
    expect((await getDeploy(deploy.id)).preview_url).toBeNull()
    await shown(preview, 'new key')
    await shows(url, 'new key')
  })
})

describe('the end of the link', () => {
  test('G04 P04: closing ends it with the answer of an unknown one, and opened again it is another', async () => {
    const { site, preview, deploy, url } = await linked('closed')
    await shows(url, 'closed')
    expect(await closed(site.id)).toMatchObject({ ref: 'feature', closed_at: expect.any(Date) })
    expect(await linkOf(preview)).toMatchObject({ deploy_id: null, token_sha256: null })
    await isGone(url)
    const [gone, unknown] = await Promise.all([url, `${w.config.urls.preview}/${'a'.repeat(52)}/`].map((link) => w.open(link)))
    const bare = (answer: any) => ({ ...answer, headers: { ...answer.headers, date: '' } })
    expect(bare(gone)).toEqual(bare(unknown))
    expect([await closed(site.id), await show(deploy), await list(site.id)]).toEqual([undefined, 'closed', []])

    await shown(await pushed(site.id), 'open again')
    const [again] = await list(site.id)
    expect(again.url).not.toBe(url)
    await shows(again.url, 'open again')
    expect((await w.open(url)).status).toBe(404)
  })

  test('P04: delete_git_preview ends it until the next push, which makes another', async () => {
    const { site, preview, url } = await linked('unwanted')
    for (let times = 1; times <= 2; times++) {
      expect((await call(`DELETE sites/${site.id}/git/previews/${preview.id}`)).body).toEqual({ ok: true })
    }
    await isGone(url)
    const refused = await call(`POST sites/${site.id}/git/previews/${preview.id}/approval`)
    expect([refused.status, refused.body.message]).toEqual([409, expect.stringContaining('next push')])
    await shown(await pushed(site.id), 'wanted')
    expect((await list(site.id))[0].url).not.toBe(url)
  })

  test('G04: shown, pushed to and deleted at once, it has a link only while it is open', async () => {
    const { id } = await makeSite(w, owner)
    const outcomes = new Set<string>()
    for (let round = 0; round < 12; round++) {
      const preview = await pushed(id)
      const deploy = await built(preview, `round ${round}`)
      const ending = call(`DELETE sites/${id}/git/previews/${preview.id}`)
      const [outcome, ended] = await Promise.all([show(deploy), ending, ...(round % 2 ? [pushed(id)] : [])])
      outcomes.add(outcome)
      expect(ended.status).toBe(200)
      const row = await w.db.selectFrom('git_previews').selectAll().where('id', '=', preview.id).executeTakeFirstOrThrow()
      const link = await linkOf(preview)
      if (row.closed_at && link) expect([link.token_sha256, link.deploy_id]).toEqual([null, null])
    }
    expect([...outcomes].every((outcome) => ['shown', 'closed'].includes(outcome))).toBe(true)
  })

  test('G04: approved and deleted at once, a fork is built or closed, and nothing waits for ever', async () => {
    const { id } = await makeSite(w, owner)
    const json = { repo_url: 'https://forge.example.com/ada/notes' }
    expect((await w.call(`PUT /api/v1/sites/${id}/git`, { key: owner.key, json })).status).toBe(200)
    // nothing of it leaves this machine
    await w.db.updateTable('git_connections').set({ repo_url: 'https://127.0.0.1/x' }).where('site_id', '=', id).execute()
    for (let number = 1; number <= 8; number++) {
      const fork = { pull_request: number, from_fork: true, head_commit: 'a'.repeat(40) }
      const path = `sites/${id}/git/previews/${(await pushed(id, `pull:${number}`, fork)).id}`
      const answers = [`POST ${path}/approval`, `DELETE ${path}`, `POST ${path}/approval`].map((endpoint) => call(endpoint))
      const [first, deleted, second] = (await Promise.all(answers)).map((answer) => answer.status)
      expect(deleted).toBe(200)
      expect([200, 409]).toContain(first)
      expect([200, 409]).toContain(second)
    }
    expect(await list(id)).toEqual([])
  })

  test('X07: deleting the files of the deploy that it shows closes it, unless another deploy is on its way', async () => {
    const { site, preview, deploy, url } = await linked('deleted')
    const next = await built(preview, 'deleted too')
    const becomes = (status: 'building' | 'ready') =>
      w.db.updateTable('deploys').set({ status }).where('id', '=', next.id).execute()
    await becomes('building')
    expect((await call(`DELETE deploys/${deploy.id}`)).status).toBe(200)
    await isGone(url)
    expect(await list(site.id)).toMatchObject([{ state: 'building', url: null, deploy_id: null }])
    await becomes('ready')
    expect(await show(next)).toBe('shown')
    expect((await call(`DELETE deploys/${next.id}`)).status).toBe(200)
    expect(await list(site.id)).toEqual([])
    await shown(await pushed(site.id), 'made anew')
    const [again] = await list(site.id)
    expect(again.url).not.toBe(url)
    await shows(again.url, 'made anew')
  })

  test('T02 T06: in the trash it opens no more, and restored again; removed for good the site leaves nothing', async () => {
    const { site, preview, url } = await linked('to be removed')
    await call(`DELETE sites/${site.id}`)
    await isGone(url)
    await call(`POST sites/${site.id}/restore`)
    await shows(url, 'to be removed')
    const connection = {
      repo_url: 'https://git.example.com/a/b',
      branch: 'main',
      branch_previews: true,
      pull_request_previews: true,
    }
    const times = { created_at: clock(), updated_at: clock() }
    const ids = { site_id: site.id, project_id: owner.id }
    await w.db
      .insertInto('git_connections')
      .values({ ...ids, ...connection, ...times, watch_paths: [] })
      .execute()
    await w.db.insertInto('git_deliveries').values({ site_id: site.id, delivery_id: 'push 1', received_at: clock() }).execute()
    await w.db
      .insertInto('git_reports')
      .values({ site_id: site.id, deploy_id: (await built(preview, 'reported')).id })
      .execute()
    const left = async () => {
      const rows = ['git_connections', 'git_deliveries', 'git_previews', 'git_reports', 'deploys', 'preview_links'] as const
      const counts = rows.map((table) => w.db.selectFrom(table).select('site_id').where('site_id', '=', site.id).execute())
      return [
        ...(await Promise.all(counts)).flat(),
        ...(await w.db.selectFrom('sites').select('id').where('id', '=', site.id).execute()),
      ]
    }
    expect((await left()).length).toBeGreaterThan(5)
    await call(`DELETE sites/${site.id}`)
    await expect.poll(left).toEqual([])
  })
})

describe('time and plans', () => {
  test('E27: it ends 30 days after the latest push, and a pull request that waits for its approval stays', async () => {
    const { site, preview, url } = await linked('ageing')
    await pushed(site.id, 'pull:7', { pull_request: 7, from_fork: true })
    advance(29 * dayMs)
    await pushed(site.id)
    const [{ expires_at }] = await list(site.id)
    expect(Date.parse(expires_at) - clock().getTime()).toBeGreaterThan(29.9 * dayMs)
    advance(29 * dayMs)
    await sweep()
    expect((await w.open(url)).status).toBe(200)
    const late = await built(preview, 'too late')
    advance(1.01 * dayMs)
    expect(await show(late)).toBe('closed')
    await sweep()
    await isGone(url)
    expect(await list(site.id)).toMatchObject([{ ref: 'pull:7', state: 'waiting_for_approval', url: null, expires_at: null }])
  })

  test('G04: a delivery is known for seven days', async () => {
    const { id: site_id } = await makeSite(w, owner)
    const deliver = (delivery_id: string) =>
      w.db.insertInto('git_deliveries').values({ site_id, delivery_id, received_at: clock() }).execute()
    const known = async () => {
      const rows = await w.db.selectFrom('git_deliveries').select('delivery_id').where('site_id', '=', site_id).execute()
      return rows.map((row) => row.delivery_id)
    }
    await deliver('old')
    advance(6.9 * dayMs)
    await deliver('young')
    await sweep()
    expect(await known()).toEqual(['old', 'young'])
    advance(0.2 * dayMs)
    await sweep()
    expect(await known()).toEqual(['young'])
  })

  test('X09: what a live link shows is neither counted nor purged; what it has left is', async () => {
    const { site, preview, url } = await linked('0')
    for (const text of ['1', '2', '3']) await shown(preview, text)
    const other = await shown(await pushed(site.id, 'other'), 'other')
    const live = await deployFiles(w, owner, site.id, [page('live')])
    const kept = async () => (await call(`GET sites/${site.id}/deploys`)).body.filter((row: any) => !row.artifacts_purged).length
    // live, two shown, and two inactive ones that the plan keeps
    await expect.poll(kept).toBe(5)
    await shows(url, '3')
    expect(await getDeploy(other.id)).toMatchObject({ artifacts_purged: false })
    advance(30.1 * dayMs)
    await pushed(site.id, 'other')
    await sweep()
    await isGone(url)
    expect([await kept(), (await list(site.id)).map((row) => row.ref)]).toEqual([4, ['other']])
    expect((await getDeploy(live.id)).status).toBe('active')
  })
})

describe('what is known of a ref', () => {
  test('G04: a pull request gives its branch a number, which stays; another one after it has a comment of its own', async () => {
    const { id } = await makeSite(w, owner)
    const said = async (change: object) => {
      const { pull_request, comment_id, approved } = await pushed(id, 'feature', change)
      return [pull_request, comment_id, approved]
    }
    expect(await said({})).toEqual([null, null, true])
    expect(await said({ pull_request: 3 })).toEqual([3, null, true])
    await w.db.updateTable('git_previews').set({ comment_id: '99', commented: 'x' }).where('site_id', '=', id).execute()
    expect(await said({})).toEqual([3, '99', true])
    expect(await said({ pull_request: 4 })).toEqual([3, '99', true])
    await closed(id)
    expect(await said({})).toEqual([3, '99', true])
    await closed(id)
    expect(await said({ pull_request: 4 })).toEqual([4, null, true])
  })

  test('A03: previews are listed with the latest push first, of the own project and site only', async () => {
    const { site, preview } = await linked('mine')
    advance(1000)
    await pushed(site.id, 'later')
    expect((await list(site.id)).map((row) => row.ref)).toEqual(['later', 'feature'])
    const stranger = await w.project('start')
    const other = await makeSite(w, owner)
    for (const path of ['', `/${preview.id}`]) {
      const [method, end] = path === '' ? ['GET', ''] : ['DELETE', path]
      expect((await call(`${method} sites/${site.id}/git/previews${end}`, stranger.key)).status).toBe(404)
    }
    expect((await call(`DELETE sites/${other.id}/git/previews/${preview.id}`)).status).toBe(404)
    expect((await list(site.id)).length).toBe(2)
  })
})
