import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Db, openDatabase } from '../../infra/db/database.ts'
import { bumpRoutes, followRoutes, type Route, type RouteSink } from '../../services/feeds/routes.ts'
import { createDatabase } from '../database.ts'

let database: Awaited<ReturnType<typeof createDatabase>>
let opened: ReturnType<typeof openDatabase>
let db: Db
beforeAll(async () => {
  database = await createDatabase()
  opened = openDatabase(database.url)
  db = opened.db
})
afterAll(async () => {
  await opened[Symbol.asyncDispose]()
  await database[Symbol.asyncDispose]()
})

const makeProject = () =>
  db.insertInto('projects').values({ name: 'p', owner_email: 'o@p.test', plan: 'free' }).returning('id').executeTakeFirstOrThrow()

let serial = 0
async function makeSite(project_id: string): Promise<string> {
  const site = { project_id, name: 's', subdomain: `site-${serial++}` }
  return await db.transaction().execute(async (tx) => {
    const { id } = await tx.insertInto('sites').values(site).returning('id').executeTakeFirstOrThrow()
    await bumpRoutes(tx, { site_id: id })
    return id
  })
}

/** Gives the site a live deploy as an activation does, without telling anybody. */
async function setLive(project_id: string, site_id: string, manifest_sha256: string): Promise<string> {
  const { seq } = await db
    .updateTable('sites')
    .set((eb) => ({ last_deploy_seq: eb('last_deploy_seq', '+', 1) }))
    .where('id', '=', site_id)
    .returning('last_deploy_seq as seq')
    .executeTakeFirstOrThrow()
  const deploy = { site_id, project_id, seq, source_kind: 'files', activate: true, is_preview: false, manifest_sha256 } as const
  const { id } = await db.insertInto('deploys').values(deploy).returning('id').executeTakeFirstOrThrow()
  await db.updateTable('sites').set({ active_deploy_id: id }).where('id', '=', site_id).execute()
  return id
}

/** Keeps what the feed says. */
function memory() {
  const state = {
    connected: false,
    confirmed: 0,
    applied: 0,
    reloads: 0,
    reason: '' as string | undefined,
    incarnation: '',
    outdated: new Set<string>(),
    routes: new Map<string, Route>(),
  }
  const sink: RouteSink = {
    useIncarnation(incarnation) {
      if (state.incarnation !== incarnation) state.outdated = new Set(state.routes.keys())
      state.incarnation = incarnation
    },
    versionOf: (id) => (state.outdated.has(id) ? 0 : state.routes.get(id)?.version),
    keepOnly(ids) {
      state.reloads++
      for (const id of state.routes.keys()) if (!ids.has(id)) state.routes.delete(id)
    },
    apply(routes, gone) {
      state.applied++
      for (const route of routes) {
        state.routes.set(route.site_id, route)
        state.outdated.delete(route.site_id)
      }
      for (const id of gone) state.routes.delete(id)
    },
    setConnected(connected, reason) {
      state.connected = connected
      if (connected) state.confirmed++
      state.reason = reason
    },
  }
  return { state, sink }
}

const never = { pollMs: 3_600_000, reloadMs: 3_600_000 }
const until = (check: () => void) => vi.waitFor(check, { timeout: 60_000, interval: 10 })

describe('bumpRoutes', () => {
  test('raises the version of one site, or of all sites of a project', async () => {
    const project = await makeProject()
    const [one, two] = [await makeSite(project.id), await makeSite(project.id)]
    const other = await makeSite((await makeProject()).id)
    await bumpRoutes(db, { site_id: one })
    await bumpRoutes(db, { project_id: project.id })
    const rows = await db.selectFrom('sites').select(['id', 'version']).where('id', 'in', [one, two, other]).execute()
    expect(Object.fromEntries(rows.map((row) => [row.id, row.version]))).toEqual({ [one]: 4, [two]: 3, [other]: 2 })
  })

  test('a transaction that is rolled back tells nobody', async () => {
    const site = await makeSite((await makeProject()).id)
    const { state, sink } = memory()
    await using _feed = followRoutes(database.url, sink, never)
    await until(() => expect(state.connected).toBe(true))
    const undone = db.transaction().execute(async (tx) => {
      await bumpRoutes(tx, { site_id: site })
      throw new Error('undone')
    })
    await expect(undone).rejects.toThrow('undone')
    await makeSite((await makeProject()).id)
    await until(() => expect(state.applied).toBe(1))
    expect(state.routes.get(site)?.version).toBe(2)
  })
})

describe('followRoutes', () => {
  test('begins with every route and follows each change by its notification alone', async () => {
    const project = await makeProject()
    const site = await makeSite(project.id)
    const { state, sink } = memory()
    await using _feed = followRoutes(database.url, sink, never)
    await until(() => expect(state.connected).toBe(true))
    expect(state.routes.get(site)).toEqual({
      site_id: site,
      subdomain: expect.stringMatching(/^site-/),
      enabled: true,
      suspended: false,
      trashed: false,
      version: 2,
      deploy_id: null,
      manifest_sha256: null,
      compressed: false,
      canonical_urls: false,
      retained_sha256: null,
      previews: [],
      permanent: [],
      former: [],
      domains: [],
      delivery_files: [],
      delivery_page: null,
      lock: null,
    })

    const deploy_id = await setLive(project.id, site, 'a'.repeat(64))
    await bumpRoutes(db, { site_id: site })
    await until(() => expect(state.routes.get(site)).toMatchObject({ version: 3, deploy_id, manifest_sha256: 'a'.repeat(64) }))

    await db.updateTable('projects').set({ suspended: true }).where('id', '=', project.id).execute()
    await bumpRoutes(db, { project_id: project.id })
    await until(() => expect(state.routes.get(site)).toMatchObject({ version: 4, suspended: true }))

    await db.updateTable('sites').set({ enabled: false, deletion_scheduled_at: new Date() }).where('id', '=', site).execute()
    await bumpRoutes(db, { site_id: site })
    await until(() => expect(state.routes.get(site)).toMatchObject({ enabled: false, trashed: true }))

    const later = await makeSite(project.id)
    await until(() => expect(state.routes.has(later)).toBe(true))
    expect(state.reloads).toBe(1)
  })

  test('P01 G04: preview links travel with the route of their site, those whose deploy has files', async () => {
    const project = await makeProject()
    const site = await makeSite(project.id)
    const deploys = []
    for (const letter of 'abcd') deploys.push(await setLive(project.id, site, letter.repeat(64)))
    const [live, purged, revoked, linked] = deploys as [string, string, string, string]
    const { state, sink } = memory()
    await using _feed = followRoutes(database.url, sink, never)
    await until(() => expect(state.connected).toBe(true))
    const issued = { site_id: site, issued_at: new Date() }
    await db.transaction().execute(async (tx) => {
      await tx.updateTable('sites').set({ active_deploy_id: live }).where('id', '=', site).execute()
      await tx.updateTable('deploys').set({ artifacts_purged: true }).where('id', '=', purged).execute()
      const links = [purged, linked].map((id) => ({ ...issued, id, deploy_id: id, token_sha256: `hash of ${id}` }))
      await tx.insertInto('preview_links').values(links).execute()
      await tx.insertInto('preview_links').values({ id: revoked, deploy_id: revoked, site_id: site, generation: 2 }).execute()
      const ref = (name: string) => ({
        ref: name,
        fetch_ref: `refs/heads/${name}`,
        branch: name,
        from_fork: false,
        approved: true,
      })
      const pushed = { site_id: site, project_id: project.id, updated_at: new Date() }
      const branches = [
        { branch: { ...pushed, ...ref('shown') }, link: { ...issued, deploy_id: revoked, token_sha256: 'hash of a branch' } },
        { branch: { ...pushed, ...ref('purged') }, link: { ...issued, deploy_id: purged, token_sha256: 'hash of a purged one' } },
        { branch: { ...pushed, ...ref('closed'), closed_at: new Date() }, link: { site_id: site, generation: 2 } },
      ]
      for (const { branch, link } of branches) {
        const { id } = await tx.insertInto('git_previews').values(branch).returning('id').executeTakeFirstOrThrow()
        await tx
          .insertInto('preview_links')
          .values({ ...link, id, git_preview_id: id })
          .execute()
      }
      await bumpRoutes(tx, { site_id: site })
    })
    const previews = [
      { token_sha256: `hash of ${linked}`, deploy_id: linked, manifest_sha256: 'd'.repeat(64) },
      { token_sha256: 'hash of a branch', deploy_id: revoked, manifest_sha256: 'c'.repeat(64) },
    ]
    await until(() =>
      expect(state.routes.get(site)).toMatchObject({ deploy_id: live, previews: expect.arrayContaining(previews) }),
    )
    expect(state.routes.get(site)?.previews).toHaveLength(2)
    expect(state.reloads).toBe(1)
  })

  test('a burst of changes is few reads', async () => {
    const project = await makeProject()
    const sites: string[] = []
    for (let i = 0; i < 200; i++) sites.push(await makeSite(project.id))
    const { state, sink } = memory()
    await using _feed = followRoutes(database.url, sink, never)
    await until(() => expect(state.connected).toBe(true))
    await db.updateTable('projects').set({ suspended: true }).where('id', '=', project.id).execute()
    await bumpRoutes(db, { project_id: project.id })
    await until(() => expect(sites.every((id) => state.routes.get(id)?.suspended)).toBe(true))
    expect(state.applied).toBeLessThan(20)
  })

  test('follows one site after its statement is planned once for all', async () => {
    const site = await makeSite((await makeProject()).id)
    const { state, sink } = memory()
    await using _feed = followRoutes(database.url, sink, never)
    await until(() => expect(state.connected).toBe(true))
    // it is prepared at its fifth use, and PostgreSQL plans it again for each of the next five
    for (let version = 3; version < 15; version++) {
      await bumpRoutes(db, { site_id: site })
      await until(() => expect(state.routes.get(site)?.version).toBe(version))
    }
    expect(state.reloads).toBe(1)
  })

  test('a change that no notification told of is found by the poll, even when it was stamped long before its commit', async () => {
    const site = await makeSite((await makeProject()).id)
    const { state, sink } = memory()
    await using _feed = followRoutes(database.url, sink, { ...never, pollMs: 20 })
    await until(() => expect(state.connected).toBe(true))
    const silent = sql`version = version + 1, route_changed_at = clock_timestamp() - interval '30 seconds'`
    await sql`update sites set enabled = false, ${silent} where id = ${site}`.execute(db)
    await until(() => expect(state.routes.get(site)?.enabled).toBe(false))
    expect(state.reloads).toBe(1)
  })

  test('E36: each completed poll is reported', async () => {
    const { state, sink } = memory()
    await using _feed = followRoutes(database.url, sink, { ...never, pollMs: 20 })
    await until(() => expect(state.confirmed).toBeGreaterThan(3))
    expect(state.reloads).toBe(1)
  })

  test('a deleted site is gone with the next full read', async () => {
    const site = await makeSite((await makeProject()).id)
    const { state, sink } = memory()
    await using _feed = followRoutes(database.url, sink, { ...never, reloadMs: 50 })
    await until(() => expect(state.routes.has(site)).toBe(true))
    await db.deleteFrom('sites').where('id', '=', site).execute()
    await until(() => expect(state.routes.has(site)).toBe(false))
    expect(state.connected).toBe(true)
  })

  test('a notification of a site that is gone removes it', async () => {
    const site = await makeSite((await makeProject()).id)
    const { state, sink } = memory()
    await using _feed = followRoutes(database.url, sink, never)
    await until(() => expect(state.routes.has(site)).toBe(true))
    await db.deleteFrom('sites').where('id', '=', site).execute()
    await sql`select pg_notify('routes', ${`${site}:3`})`.execute(db)
    await until(() => expect(state.routes.has(site)).toBe(false))
  })

  test('after the server has ended the connection it connects again and has what it missed', async () => {
    const site = await makeSite((await makeProject()).id)
    const { state, sink } = memory()
    await using _feed = followRoutes(database.url, sink, never)
    await until(() => expect(state.connected).toBe(true))
    await db.transaction().execute(async (tx) => {
      await tx.updateTable('sites').set({ enabled: false }).where('id', '=', site).execute()
      await bumpRoutes(tx, { site_id: site })
      await sql`select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name = 'plinth edge routes'`.execute(tx)
    })
    await until(() => expect(state.routes.get(site)?.enabled).toBe(false))
    await until(() => expect(state.connected).toBe(true))
    expect(state.reloads).toBe(2)
  })

  test('while PostgreSQL cannot be reached it keeps what it has, and comes back by itself', async () => {
    const site = await makeSite((await makeProject()).id)
    await using gate = await openGate(database.url)
    const { state, sink } = memory()
    await using _feed = followRoutes(gate.url, sink, never)
    await until(() => expect(state.connected).toBe(true))
    gate.close()
    await until(() => expect(state.connected).toBe(false))
    expect(state.reason).not.toBe('')
    expect(state.routes.has(site)).toBe(true)
    await db.updateTable('sites').set({ enabled: false }).where('id', '=', site).execute()
    await bumpRoutes(db, { site_id: site })
    gate.open()
    await until(() => expect(state.connected).toBe(true))
    expect(state.routes.get(site)?.enabled).toBe(false)
  })
})

/** A way to the database that can be shut: then it ends all connections and new ones at once. */
async function openGate(databaseUrl: string) {
  const target = new URL(databaseUrl)
  const sockets = new Set<Socket>()
  let closed = false
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    if (closed) {
      socket.destroy()
      return
    }
    const upstream = connect(Number(target.port), target.hostname)
    upstream.on('error', () => undefined).on('close', () => socket.destroy())
    socket.on('close', () => upstream.destroy())
    socket.pipe(upstream).pipe(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(databaseUrl)
  const address = server.address()
  url.hostname = '127.0.0.1'
  url.port = String(typeof address === 'object' ? address?.port : '')
  const end = () => {
    for (const socket of sockets) socket.destroy()
    sockets.clear()
  }
  return {
    url: url.href,
    close() {
      closed = true
      end()
    },
    open() {
      closed = false
    },
    async [Symbol.asyncDispose]() {
      end()
      server.close()
      await once(server, 'close')
    },
  }
}
