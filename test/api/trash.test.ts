import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { operations } from '../../api/operations/index.ts'
import { quarantinePeriodMs } from '../../core/limits.ts'
import { defaultPlans } from '../../core/plans.ts'
import { followRoutes, type Route } from '../../services/feeds/routes.ts'
import { aroundTheEnd, deployFiles, makeSite, openPreview, page, randomName } from '../make.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { archive } from './operation-inputs.ts'
import { restRequest } from './rest-request.ts'

const dayMs = 86_400_000
const plans = {
  ...defaultPlans,
  free: { ...defaultPlans.free, sites: 1, storage_bytes: 10 },
  enterprise: { ...defaultPlans.enterprise, sites: 1 },
}

const trash = (w: World, { key }: TestProject, id: string) => w.call(`DELETE /api/v1/sites/${id}`, { key })
const restore = (w: World, { key }: TestProject, id: string) => w.call(`POST /api/v1/sites/${id}/restore`, { key })
const read = async (w: World, { key }: TestProject, path: string) => (await w.call(`GET /api/v1/${path}`, { key })).body
const statusOf = async (w: World, { key }: TestProject, path: string) => (await w.call(`GET /api/v1/${path}`, { key })).status
const shows = (w: World, subdomain: string) => expect.poll(async () => (await w.visit(subdomain)).body)
const answers = (w: World, subdomain: string) => expect.poll(async () => (await w.visit(subdomain)).status)
const change = (w: World, project: TestProject, json: object) =>
  w.call(`PATCH /operator/v1/projects/${project.id}`, { key: operatorToken, json })

/** A site that shows its name. */
async function liveSite(w: World, project: TestProject): Promise<any> {
  const site = await makeSite(w, project)
  const deploy = await deployFiles(w, project, site.id, [page(site.subdomain)])
  await shows(w, site.subdomain).toContain(site.subdomain)
  return { ...site, deploy }
}

const accessTables = [
  'access_locks',
  'access_brands',
  'access_emails',
  'access_generations',
  'access_networks',
  'access_codes',
  'access_tickets',
  'access_logins',
  'access_prices',
  'checkouts',
  'access_channels',
  'messenger_logins',
  'subscribers',
  'site_documents',
  'members',
  'member_settings',
] as const

const statsTables = ['traffic_days', 'activity_days', 'traffic_tops', 'live_visitors', 'live_paths'] as const

/** Gives a site a row in every table of its statistics. */
async function fillStats(w: World, site_id: string): Promise<void> {
  const [day, visitor] = ['2026-01-01', Buffer.alloc(12)]
  await w.db.insertInto('traffic_days').values({ site_id, day }).execute()
  await w.db.insertInto('activity_days').values({ site_id, day }).execute()
  const top = { kind: 'page', value: '/', hits: 1, visitors: 1 } as const
  await w.db
    .insertInto('traffic_tops')
    .values({ site_id, day, ...top })
    .execute()
  await w.db.insertInto('live_visitors').values({ site_id, visitor, seen_at: new Date() }).execute()
  await w.db.insertInto('live_paths').values({ site_id, minute: new Date(), path: '/', hits: 1 }).execute()
}

/** Closes a site and gives it a row in every table of its access. */
async function fillAccess(w: World, { key, id: project_id }: TestProject, site_id: string): Promise<void> {
  const url = `/api/v1/sites/${site_id}/access`
  await w.call(`POST ${url}/email-mode`, { key, json: {} })
  const raw = 'ada@example.com, grace@example.com'
  expect((await w.call(`POST ${url}/emails/bulk`, { key, json: { raw } })).body.added).toBe(2)
  expect((await w.call(`POST ${url}/emails/remove`, { key, json: { emails: ['ada@example.com'], confirm: true } })).status).toBe(
    200,
  )
  const { id } = await w.db.selectFrom('access_emails').select('id').where('site_id', '=', site_id).executeTakeFirstOrThrow()
  const now = new Date()
  await w.db
    .insertInto('access_codes')
    .values({ site_id, email: 'grace@example.com', code_sha256: 'x', created_at: now })
    .execute()
  const ticket = { ticket_sha256: site_id, deploy_id: site_id, epoch: site_id, subject: id, generation: 0, consent: 0 }
  await w.db
    .insertInto('access_tickets')
    .values({ site_id, ...ticket, until: now, network: '192.0.2.1' })
    .execute()
  const login = { email_masked: 'g***', device: 'Firefox', ip_masked: '192.0.2.0', result: 'success', at: now }
  await w.db
    .insertInto('access_logins')
    .values({ site_id, access_email_id: id, ...login })
    .execute()
  const entered = { subject: id, network: '192.0.2.0/24', entered_at: now }
  await w.db
    .insertInto('access_networks')
    .values({ site_id, ...entered })
    .execute()
  await w.db.insertInto('access_brands').values({ site_id, project_id, title: 'For readers' }).execute()
  const at = { site_id, project_id }
  const price = { amount_minor: 49_900, currency: 'RUB', provider: 'manual' } as const
  await w.db
    .insertInto('access_prices')
    .values({ ...at, ...price })
    .execute()
  const named = { provider: 'telegram', external_id: site_id, title: 'News' } as const
  const channel = await w.db
    .insertInto('messenger_channels')
    .values({ project_id, ...named, bot_is_admin: true, connected_at: now })
    .returning('id')
    .executeTakeFirstOrThrow()
  await w.db.insertInto('access_channels').values({ site_id, channel_id: channel.id }).execute()
  const opened = { id: crypto.randomUUID(), provider: 'telegram', host: 'x', nonce_sha256: site_id, created_at: now } as const
  await w.db
    .insertInto('messenger_logins')
    .values({ site_id, ...opened })
    .execute()
  const seen = { created_at: now, last_login_at: now, member_at: now }
  await w.db
    .insertInto('subscribers')
    .values({ site_id, provider: 'telegram', user_id: '7', ...seen })
    .execute()
  await w.db.insertInto('member_settings').values(at).execute()
  const document = { position: 0, title: 'Terms', url: 'https://example.com/terms' }
  const { id: document_id } = await w.db
    .insertInto('site_documents')
    .values({ ...at, ...document })
    .returning('id')
    .executeTakeFirstOrThrow()
  const { id: member_id } = await w.db
    .insertInto('members')
    .values({ ...at, email: 'grace@example.com', status: 'active', registered_at: now })
    .returning('id')
    .executeTakeFirstOrThrow()
  const begun = { provider: 'yookassa', origin: 'https://example.com', return_path: '/', created_at: now } as const
  await w.db
    .insertInto('checkouts')
    .values({ ...at, member_id, ...begun, amount_minor: 49_900, currency: 'RUB' })
    .execute()
  await w.db.insertInto('member_consents').values({ member_id, document_id, at: now }).execute()
}

describe('a site in the trash', () => {
  let w: World
  let owner: TestProject
  beforeAll(async () => {
    w = await world({ edge: true, plans, ownTemporal: true })
    owner = await w.project()
  })
  afterAll(() => w?.[Symbol.asyncDispose]())

  test('T01 T02 T03 T04 S09 V15 E4: is listed there, is not served, and comes back as it was', async () => {
    const site = await liveSite(w, owner)
    const shown = await deployFiles(w, owner, site.id, [page('preview')], false)
    const { url } = (await w.call(`POST /api/v1/deploys/${shown.id}/preview`, { key: owner.key })).body
    await expect.poll(async () => (await w.open(url)).status).toBe(200)
    await expect.poll(async () => (await read(w, owner, `sites/${site.id}`)).recommendations).toBeDefined()
    const before = await read(w, owner, `sites/${site.id}`)

    const startedAt = Date.now()
    const { status, body } = await trash(w, owner, site.id)
    const dueAt = Date.parse(body.deletion_scheduled_at)
    expect(status).toBe(200)
    expect(dueAt).toBeGreaterThanOrEqual(startedAt + dayMs)
    expect(dueAt).toBeLessThanOrEqual(Date.now() + dayMs)
    expect(body).toMatchObject({
      id: site.id,
      url: site.url,
      form_endpoint: site.form_endpoint,
      active_deploy_id: site.deploy.id,
    })
    expect(await read(w, owner, 'trashed-sites')).toContainEqual(body)
    expect(await read(w, owner, 'sites')).not.toContainEqual(expect.objectContaining({ id: site.id }))
    expect(await read(w, owner, `sites/${site.id}`)).toEqual({ ...before, ...body })
    await answers(w, site.subdomain).toBe(404)
    expect((await w.open(url)).status).toBe(404)

    const restored = await restore(w, owner, site.id)
    const { updated_at } = restored.body
    expect([restored.status, restored.body]).toEqual([200, { ...before, recommendations: undefined, updated_at }])
    await shows(w, site.subdomain).toContain(site.subdomain)
    expect((await w.open(url)).status).toBe(200)
    expect(await read(w, owner, 'trashed-sites')).not.toContainEqual(expect.objectContaining({ id: site.id }))
    expect((await read(w, owner, `sites/${site.id}/deploys`)).map((deploy: any) => deploy.status)).toEqual(['ready', 'active'])
    expect((await w.call(`POST /api/v1/deploys/${shown.id}/activate`, { key: owner.key })).status).toBe(200)
    await shows(w, site.subdomain).toContain('preview')
  })

  test('T03: the trash shows the projects own sites, the one that goes first in front', async () => {
    const project = await w.project()
    const [a, b] = [await makeSite(w, project), await makeSite(w, project)]
    await trash(w, project, b.id)
    await trash(w, project, a.id)
    expect((await read(w, project, 'trashed-sites')).map((site: any) => site.id)).toEqual([b.id, a.id])
  })

  test('E4: is not trashed twice, and a live one is not restored', async () => {
    const site = await makeSite(w, owner)
    const early = await restore(w, owner, site.id)
    expect([early.status, early.body.message]).toEqual([409, expect.stringContaining('not in the trash')])
    const { deletion_scheduled_at } = (await trash(w, owner, site.id)).body
    const again = await trash(w, owner, site.id)
    expect([again.status, again.body.message]).toEqual([409, expect.stringContaining('restore_site')])
    expect((await read(w, owner, `sites/${site.id}`)).deletion_scheduled_at).toBe(deletion_scheduled_at)
  })

  test('E4: can be read and restored, and its deploys withdrawn; everything that publishes or edits it is refused with 409', async () => {
    const site = await liveSite(w, owner)
    const ready = await deployFiles(w, owner, site.id, [page('ready')], false)
    const repo_url = 'https://forge.example.com/ada/notes.git'
    await w.call(`PUT /api/v1/sites/${site.id}/git`, { key: owner.key, json: { repo_url } })
    const preview = await openPreview(w, owner, site.id)
    await w.call(`PUT /api/v1/sites/${site.id}/env/x`, { key: owner.key, json: { value: 'x' } })
    await w.call(`PUT /api/v1/sites/${site.id}/access`, { key: owner.key, json: { level: 'easy' } })
    const waiting = { email: 'ada@example.com', status: 'pending', registered_at: new Date() } as const
    const member = await w.db
      .insertInto('members')
      .values({ ...waiting, site_id: site.id, project_id: owner.id })
      .returning('id')
      .executeTakeFirstOrThrow()
    await trash(w, owner, site.id)
    const sha256 = createHash('sha256').update(archive).digest('hex')
    const input: Record<string, unknown> = {
      site_id: site.id,
      deploy_id: ready.id,
      name: 'x',
      enabled: false,
      subdomain: randomName(),
      domain: `${randomName()}.example`,
      repo_url,
      preview_id: preview.id,
      value: 'x',
      path: '/',
      notify_email: true,
      file_id: preview.id,
      file_name: 'x',
      label: 'x',
      level: 'easy',
      days: 1,
      max_opens: 1,
      email_id: preview.id,
      email: 'ada@example.com',
      raw: 'ada@example.com',
      emails: ['ada@example.com'],
      channel_ids: [preview.id],
      confirm: true,
    }
    const withdrawing = [
      'delete_env',
      'delete_deploy',
      'revoke_preview_url',
      'disconnect_git',
      'remove_deploy_hook',
      'delete_git_preview',
    ]
    const bodies: Record<string, object> = {
      // a member of a site in the trash stays there
      export_site_member: { member_id: member.id },
      moderate_member: { member_id: member.id, action: 'approve' },
      set_members_settings: { ask_name: true },
      set_site_documents: { documents: [] },
      set_paid_access: { amount_minor: 49_900, currency: 'RUB', period_days: null, provider: 'manual' },
      deploy_files: { files: [page('x')] },
      check_deploy: { files: [{ path: 'index.html', sha256 }] },
      deploy_manifest: {
        files: [{ path: 'index.html', sha256: createHash('sha256').update(page('ready').content).digest('hex') }],
      },
    }
    const seen: Record<string, number> = {}
    for (const op of operations) {
      const rest = restRequest(op, { ...input, ...bodies[op.id] })
      if (!rest || !/\{(site|deploy)_id\}/.test(op.rest ?? '')) continue
      // a deploy can be cancelled in the trash too, but this one has ended
      if (op.id === 'restore_site' || op.id === 'cancel_deploy') continue
      const { status, body } = await w.call(rest.request, { key: owner.key, ...rest.options })
      seen[op.id] = status
      const isOpen = op.scope === 'readonly' || rest.request.startsWith('GET ') || withdrawing.includes(op.id)
      const expected = isOpen ? [200] : [409, expect.stringContaining('in the trash')]
      expect([op.id, status, ...(status === 200 ? [] : [body.message])]).toEqual([op.id, ...expected])
    }
    expect(Object.keys(seen)).toEqual(expect.arrayContaining(['update_site', 'deploy_site', 'set_custom_domain', 'get_manifest']))
    expect((await restore(w, owner, site.id)).status).toBe(200)
    expect(await statusOf(w, owner, `deploys/${ready.id}`)).toBe(200)
  })

  test('T02: a deploy that is under way when its site is trashed ends without going live, and can be published later', async () => {
    const site = await liveSite(w, owner)
    await w.killTemporal()
    const json = { files: [page('late')] }
    const { body: late } = await w.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: owner.key, json })
    await trash(w, owner, site.id)
    await w.startTemporal({ forget: false })
    expect((await w.ended(late.id, owner.key)).status).toBe('superseded')
    await restore(w, owner, site.id)
    await shows(w, site.subdomain).toContain(site.subdomain)
    expect((await w.call(`POST /api/v1/deploys/${late.id}/activate`, { key: owner.key })).status).toBe(200)
    await shows(w, site.subdomain).toContain('late')
  })

  test('T05: the site quota refuses a restore with 402 while a higher plan would help, else with 409', async () => {
    for (const [plan, expected] of [
      ['free', 402],
      ['enterprise', 409],
    ] as const) {
      const project = await w.project(plan)
      const site = await makeSite(w, project)
      await trash(w, project, site.id)
      const other = await makeSite(w, project)
      const refused = await restore(w, project, site.id)
      expect([plan, refused.status, refused.body.message]).toEqual([plan, expected, expect.stringContaining('1 sites')])
      await trash(w, project, other.id)
      expect((await restore(w, project, site.id)).status).toBe(200)
    }
  })

  test('T05: the storage quota refuses a restore with 409, a suspension with 402', async () => {
    const project = await w.project('start')
    const site = await liveSite(w, project)
    await trash(w, project, site.id)
    await change(w, project, { plan: 'free' })
    const full = await restore(w, project, site.id)
    expect([full.status, full.body.message]).toEqual([409, expect.stringContaining('storage quota')])
    await change(w, project, { plan: 'start', suspended: true })
    const suspended = await restore(w, project, site.id)
    expect([suspended.status, suspended.body.message]).toEqual([402, expect.stringContaining('suspended')])
    expect((await trash(w, project, site.id)).status).toBe(409)
    await change(w, project, { suspended: false })
    expect((await restore(w, project, site.id)).status).toBe(200)
  })

  test('a suspended project can still delete', async () => {
    const project = await w.project()
    const site = await makeSite(w, project)
    await change(w, project, { suspended: true })
    expect((await trash(w, project, site.id)).status).toBe(200)
  })

  test('of many who delete or restore at once one does it', async () => {
    const site = await makeSite(w, owner)
    const race = async (act: typeof trash) => {
      const all = await Promise.all(Array.from({ length: 5 }, () => act(w, owner, site.id)))
      return all.map((answer) => answer.status).sort()
    }
    for (let round = 0; round < 3; round++) {
      expect(await race(trash)).toEqual([200, 409, 409, 409, 409])
      expect(await race(restore)).toEqual([200, 409, 409, 409, 409])
    }
    const mixed = await Promise.all([trash, restore, trash, restore, trash].map((act) => act(w, owner, site.id)))
    expect(mixed.every(({ status }) => status === 200 || status === 409)).toBe(true)
    const { deletion_scheduled_at } = await read(w, owner, `sites/${site.id}`)
    expect((await read(w, owner, 'trashed-sites')).some((one: any) => one.id === site.id)).toBe(deletion_scheduled_at !== null)
  })

  test('J03: the tools delete, list and restore; deleting asks for confirm', async () => {
    const site = await makeSite(w, owner)
    const asked = await w.tool('delete_site', { site_id: site.id }, owner.key)
    expect([asked.isError, asked.structuredContent.status]).toEqual([true, 400])
    expect((await read(w, owner, `sites/${site.id}`)).deletion_scheduled_at).toBeNull()
    const { structuredContent: trashed } = await w.tool('delete_site', { site_id: site.id, confirm: true }, owner.key)
    expect((await w.tool('list_trashed', {}, owner.key)).structuredContent.items).toContainEqual(trashed)
    const { structuredContent: restored } = await w.tool('restore_site', { site_id: site.id }, owner.key)
    expect(restored).toMatchObject({ id: site.id, deletion_scheduled_at: null })
  })

  test('its names stay its own', async () => {
    const site = await makeSite(w, owner)
    await trash(w, owner, site.id)
    const json = { name: 'x', subdomain: site.subdomain }
    expect((await w.call('POST /api/v1/sites', { key: owner.key, json })).status).toBe(409)
  })
})

describe('when the time in the trash is over', () => {
  let w: World
  let owner: TestProject
  beforeAll(async () => {
    w = await world({ edge: true, plans, env: { PLINTH_TRASH_PERIOD: '500ms' } })
    owner = await w.project()
  })
  afterAll(() => w?.[Symbol.asyncDispose]())

  const usage = async () => (await w.call(`GET /operator/v1/projects/${owner.id}`, { key: operatorToken })).body.usage
  const gone = (id: string) => expect.poll(() => statusOf(w, owner, `sites/${id}`)).toBe(404)
  const create = (project: TestProject, subdomain: string) =>
    w.call('POST /api/v1/sites', { key: project.key, json: { name: 'x', subdomain } })

  test('T06 E12: the site is gone with everything that was its own, and what it shared stays', async () => {
    const other = await liveSite(w, owner)
    const bytes = (await usage()).storage_bytes
    const site = await liveSite(w, owner)
    await deployFiles(w, owner, site.id, [page('second'), { path: 'shared.html', content: page(other.subdomain).content }])
    const shown = await deployFiles(w, owner, site.id, [page('shown')], false)
    await w.call(`POST /api/v1/deploys/${shown.id}/preview`, { key: owner.key })
    const domain = { project_id: owner.id, site_id: site.id, domain: `${randomName()}.example`, verification_token: 't' }
    const now = new Date()
    await w.db
      .insertInto('domains')
      .values({ ...domain, created_at: now, connecting_since: now })
      .execute()
    expect((await w.call(`PUT /api/v1/sites/${site.id}/env/A`, { key: owner.key, json: { value: 'x' } })).status).toBe(200)
    await fillAccess(w, owner, site.id)
    await fillStats(w, site.id)
    await trash(w, owner, site.id)
    await gone(site.id)
    expect(await statusOf(w, owner, `deploys/${site.deploy.id}`)).toBe(404)
    expect((await restore(w, owner, site.id)).status).toBe(404)
    expect(await read(w, owner, 'trashed-sites')).toEqual([])
    expect((await usage()).storage_bytes).toBe(bytes)
    const ofSite = ['deploys', 'preview_links', 'domains', 'subdomains', 'subdomain_changes', 'site_variables'] as const
    for (const table of [...ofSite, ...accessTables, ...statsTables] as const) {
      const rows = await w.db.selectFrom(table).select('site_id').where('site_id', '=', site.id).execute()
      expect([table, rows]).toEqual([table, []])
    }
    const held = await w.db.selectFrom('blobs').selectAll().where('project_id', '=', owner.id).where('deploys', '>', 0).execute()
    expect(held.map((blob) => blob.deploys)).toEqual([1])
    expect((await w.visit(other.subdomain)).body).toContain(other.subdomain)
    expect((await w.visit(site.subdomain)).status).toBe(404)
  })

  test('E12: every edge forgets the site at once', async () => {
    const site = await makeSite(w, owner)
    const gone: string[] = []
    const connected = Promise.withResolvers<void>()
    const sink = {
      useIncarnation: () => undefined,
      versionOf: () => undefined,
      keepOnly: () => undefined,
      apply: (_routes: readonly Route[], ids: readonly string[]) => void gone.push(...ids),
      setConnected: () => connected.resolve(),
    }
    await using _feed = followRoutes(w.database.url, sink, { pollMs: 3_600_000, reloadMs: 3_600_000 })
    await connected.promise
    await trash(w, owner, site.id)
    await expect.poll(() => gone).toEqual([site.id])
  })

  test('every table that names a site or a deploy is known to the removal', async () => {
    const { rows } = await sql<{ name: string }>`
      select distinct conrelid::regclass::text as name from pg_constraint
      where confrelid in ('sites'::regclass, 'deploys'::regclass)`.execute(w.db)
    const git = ['git_connections', 'git_deliveries', 'git_previews', 'git_reports']
    const forms = ['autoreplies', 'delivery_files', 'delivery_pages', 'form_submissions', 'site_forms']
    const subdomains = ['subdomain_changes', 'subdomains']
    const stats = ['activity_days', 'traffic_days']
    const others = ['deploys', 'domains', 'preview_links', 'retained_assets', 'site_variables', 'sites', 'webhooks']
    expect(rows.map((row) => row.name).sort()).toEqual(
      [...accessTables, ...git, ...forms, ...stats, ...subdomains, ...others].sort(),
    )
  })

  test('a storage that fails in the middle stops the removal for a while, and each deploy is given back once', async () => {
    const before = (await usage()).storage_bytes
    const keeper = await liveSite(w, owner)
    const kept = (await usage()).storage_bytes
    const site = await makeSite(w, owner)
    const shared = { path: 'shared.html', content: page(keeper.subdomain).content }
    for (let n = 0; n < 4; n++) await deployFiles(w, owner, site.id, [page(`deploy ${n}`), shared])
    const open = w.cas.open.bind(w.cas)
    const rows = await w.db.selectFrom('deploys').select('manifest_sha256').where('site_id', '=', site.id).orderBy('id').execute()
    const unreadable = rows.slice(2).map((row) => row.manifest_sha256)
    const broken = vi.spyOn(w.cas, 'open').mockImplementation(async (sha256) => {
      if (unreadable.includes(sha256)) throw new Error('the storage is away')
      return await open(sha256)
    })
    await trash(w, owner, site.id)
    const purged = () =>
      w.db.selectFrom('deploys').select('id').where('site_id', '=', site.id).where('artifacts_purged', '=', true)
    await expect.poll(async () => (await purged().execute()).length).toBe(2)
    const tries = () => broken.mock.calls.filter(([sha256]) => sha256 === unreadable[0]).length
    await expect.poll(tries).toBeGreaterThan(1)
    const late = await restore(w, owner, site.id)
    expect([late.status, late.body.message]).toEqual([409, expect.stringContaining('for good')])
    broken.mockRestore()
    await gone(site.id)
    expect((await usage()).storage_bytes).toBe(kept)
    await trash(w, owner, keeper.id)
    await gone(keeper.id)
    expect((await usage()).storage_bytes).toBe(before)
  })

  test('T06: a restore at the last moment either brings the whole site back or comes too late', async () => {
    const moments = aroundTheEnd()
    for (let round = 0; round < 6; round++) {
      const site = await liveSite(w, owner)
      const { body } = await trash(w, owner, site.id)
      await moments.next(body.deletion_scheduled_at)
      const { status } = await restore(w, owner, site.id)
      moments.tell(status === 200)
      if (status !== 200) {
        expect([404, 409]).toContain(status)
        await gone(site.id)
        continue
      }
      await shows(w, site.subdomain).toContain(site.subdomain)
      const [deploy] = await read(w, owner, `sites/${site.id}/deploys`)
      expect(deploy).toMatchObject({ status: 'active', artifacts_purged: false })
    }
  })

  test('E12: its name is kept from other projects for 30 days, and given back to its own', async () => {
    const [first, second] = [await makeSite(w, owner), await makeSite(w, owner)]
    const stranger = await w.project()
    for (const site of [first, second]) {
      await trash(w, owner, site.id)
      await gone(site.id)
    }
    const refused = await create(stranger, first.subdomain)
    expect([refused.status, refused.body.message]).toEqual([409, expect.stringContaining('taken')])
    const taken = await create(owner, first.subdomain)
    expect([taken.status, taken.body.subdomain]).toEqual([200, first.subdomain])
    await deployFiles(w, owner, taken.body.id, [page('taken back')])
    await shows(w, first.subdomain).toContain('taken back')
    w.advance(quarantinePeriodMs)
    expect((await create(stranger, second.subdomain)).status).toBe(200)
    expect((await create(stranger, first.subdomain)).status).toBe(409)
  })
})
