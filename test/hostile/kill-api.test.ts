import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { tarGz } from '../infra/archives.ts'
import { type Answer, ok, type Platform, report, type Site, startPlatform } from './platform.ts'

// Check 13. One writer for each write route sends its request again and again while the api is killed, so that every kill hits each
// route at another moment of its work. What was answered with 200 has to be there afterwards.

const kills = 6
/** After the new api has answered every writer, the next kill follows within so many milliseconds. */
const longestPauseMs = 1500
/** Before each deploy: a queue of hundreds would have to be waited for at the end. */
const deployPauseMs = 500

let platform: Platform
const sites = new Map<string, Site>()
beforeAll(async () => {
  platform = await startPlatform()
  for (const name of ['kill-names', 'kill-rename', 'kill-toggle', 'kill-trash', 'kill-files', 'kill-manifest', 'kill-archive'])
    sites.set(name, await platform.emptySite(name))
  for (const name of ['kill-activate', 'kill-preview', 'kill-domains', 'kill-git', 'kill-keys', 'kill-cancel'])
    sites.set(name, await platform.emptySite(name))
})
afterAll(() => platform?.[Symbol.asyncDispose]())

const siteOf = (name: string) => sites.get(name) as Site

/** One write route under fire. Its values are numbered from 0. */
interface Writer {
  readonly name: string
  /** Sends the n-th write. */
  write(n: number): Promise<Answer>
  /** Called with the answers that were 200. */
  acknowledged?(n: number, body: Answer['body']): void
  /** What is wrong afterwards. `acked` is the last acknowledged write, `sent` the last one sent: one between them may count or not. */
  lost(acked: number, sent: number): Promise<string[]>
}

/** A value that each write replaces: afterwards it is that of the last acknowledged write, or of one sent later. */
function register(name: string, write: Writer['write'], valueAt: (n: number) => unknown, read: () => Promise<unknown>): Writer {
  return {
    name,
    write,
    async lost(acked, sent) {
      const value = await read()
      const allowed = Array.from({ length: sent - acked + 1 }, (_, i) => valueAt(acked + i))
      return allowed.includes(value) ? [] : [`${name} is ${String(value)} instead of ${allowed.join(' or ')}`]
    },
  }
}

/** Writes that each make something of their own: afterwards every acknowledged one passes its look. */
function collection(name: string, write: Writer['write'], look: (body: Answer['body'], n: number) => Promise<boolean>): Writer {
  const made: [number, Answer['body']][] = []
  return {
    name,
    write,
    acknowledged: (n, body) => made.push([n, body]),
    async lost() {
      const lost: string[] = []
      for (const [n, body] of made) if (!(await look(body, n))) lost.push(`${name} ${n}`)
      return lost
    },
  }
}

/** Ends by itself when its cancellation was not acknowledged. */
const slowBuild = tarGz(
  Object.entries({
    'package.json': JSON.stringify({ name: 'x', version: '1.0.0', scripts: { build: 'sleep 5' } }),
    'package-lock.json': JSON.stringify({ name: 'x', version: '1.0.0', lockfileVersion: 3, packages: {} }),
  }).map(([name, data]) => ({ name, data })),
)

const get = (endpoint: string, key: string) => ok(platform.call(`GET ${endpoint}`, { key }))
const page = (content: string) => ({ path: 'index.html', content })
const sha256Of = (content: string) => createHash('sha256').update(content).digest('hex')

/** Whether the deploy ends well; it may still be in work. */
const goesWell = async (site: Site, id: string) =>
  ['active', 'superseded', 'ready'].includes((await platform.reaches(site, id)).status)

async function writers(): Promise<Writer[]> {
  const rename = siteOf('kill-rename')
  const names = siteOf('kill-names')
  const toggle = siteOf('kill-toggle')
  const trash = siteOf('kill-trash')
  const files = siteOf('kill-files')
  const manifest = siteOf('kill-manifest')
  const archive = siteOf('kill-archive')
  const activate = siteOf('kill-activate')
  const preview = siteOf('kill-preview')
  const domains = siteOf('kill-domains')
  const git = siteOf('kill-git')
  const cancelled = siteOf('kill-cancel')
  const keysProject = (await get('/api/v1/whoami', siteOf('kill-keys').key)).project_id
  const send = async (site: Site, content: string, goLive: boolean) => {
    const json = { files: [page(content)], activate: goLive }
    const { id } = await ok(platform.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: site.key, json }))
    await platform.reaches(site, id)
    return id as string
  }
  const sides = [await send(activate, 'side 0', true), await send(activate, 'side 1', true)]
  const hidden = await send(preview, 'hidden', false)
  const manifestFile = (n: number) => `manifest ${n}`
  return [
    collection(
      'create_site',
      (n) => platform.call('POST /api/v1/sites', { key: names.key, json: { name: 'made', subdomain: `kill-made-${n}` } }),
      async ({ id }, n) => (await get(`/api/v1/sites/${id}`, names.key)).subdomain === `kill-made-${n}`,
    ),
    register(
      'update_site',
      (n) => platform.call(`PATCH /api/v1/sites/${rename.id}`, { key: rename.key, json: { name: `name ${n}` } }),
      (n) => `name ${n}`,
      async () => (await get(`/api/v1/sites/${rename.id}`, rename.key)).name,
    ),
    register(
      'set_site_enabled',
      (n) => platform.call(`POST /api/v1/sites/${toggle.id}/enabled`, { key: toggle.key, json: { enabled: n % 2 === 0 } }),
      (n) => n % 2 === 0,
      async () => (await get(`/api/v1/sites/${toggle.id}`, toggle.key)).enabled,
    ),
    register(
      'delete_site and restore_site',
      // a write that repeats one whose answer was lost is refused, and the other way round goes on
      (n) =>
        platform.call(n % 2 === 0 ? `DELETE /api/v1/sites/${trash.id}` : `POST /api/v1/sites/${trash.id}/restore`, {
          key: trash.key,
        }),
      (n) => n % 2 === 0,
      async () => (await get('/api/v1/trashed-sites', trash.key)).length === 1,
    ),
    collection(
      'deploy_files',
      async (n) => {
        await pause(deployPauseMs)
        const json = { files: [page(`files ${n}`)] }
        return await platform.call(`POST /api/v1/sites/${files.id}/deploy-files`, { key: files.key, json })
      },
      ({ id }) => goesWell(files, id),
    ),
    collection(
      'put_blob',
      (n) => platform.call(`PUT /api/v1/blobs/${sha256Of(`blob ${n}`)}`, { key: manifest.key, bytes: Buffer.from(`blob ${n}`) }),
      async (_body, n) => {
        const json = { files: [{ path: 'index.html', sha256: sha256Of(`blob ${n}`) }] }
        return (
          (await ok(platform.call(`POST /api/v1/sites/${manifest.id}/deploys/check`, { key: manifest.key, json }))).missing
            .length === 0
        )
      },
    ),
    collection(
      'deploy_manifest',
      async (n) => {
        await pause(deployPauseMs)
        const { key, id } = manifest
        const sha256 = sha256Of(manifestFile(n))
        const put = await platform.call(`PUT /api/v1/blobs/${sha256}`, { key, bytes: Buffer.from(manifestFile(n)) })
        if (put.status !== 200) return put
        return await platform.call(`POST /api/v1/sites/${id}/deploys/manifest`, {
          key,
          json: { files: [{ path: 'index.html', sha256 }] },
        })
      },
      ({ id }) => goesWell(manifest, id),
    ),
    collection(
      'deploy_site',
      async (n) => {
        await pause(deployPauseMs)
        const bytes = tarGz([{ name: 'index.html', data: `archive ${n}` }])
        return await platform.call(`POST /api/v1/sites/${archive.id}/deploys`, { key: archive.key, bytes })
      },
      ({ id }) => goesWell(archive, id),
    ),
    collection(
      'cancel_deploy',
      async () => {
        await pause(deployPauseMs)
        const sent = await platform.call(`POST /api/v1/sites/${cancelled.id}/deploys`, { key: cancelled.key, bytes: slowBuild })
        if (sent.status !== 200) return sent
        return await platform.call(`POST /api/v1/deploys/${sent.body.id}/cancel`, { key: cancelled.key })
      },
      async ({ id }) => {
        const { status, error } = await get(`/api/v1/deploys/${id}`, cancelled.key)
        return status === 'failed' && error.startsWith('cancelled by key ')
      },
    ),
    register(
      'activate_deploy',
      (n) => platform.call(`POST /api/v1/deploys/${sides[n % 2]}/activate`, { key: activate.key }),
      (n) => sides[n % 2],
      async () => (await get(`/api/v1/sites/${activate.id}`, activate.key)).active_deploy_id,
    ),
    register(
      'get_preview_url and its revocation',
      (n) => platform.call(`${n % 2 === 0 ? 'POST' : 'DELETE'} /api/v1/deploys/${hidden}/preview`, { key: preview.key }),
      (n) => n % 2 === 0,
      async () => (await get(`/api/v1/deploys/${hidden}`, preview.key)).preview_url !== null,
    ),
    collection(
      'add_domain',
      (n) =>
        platform.call(`POST /api/v1/sites/${domains.id}/domains`, {
          key: domains.key,
          json: { domain: `kill-${n}.example.org` },
        }),
      async ({ id }) =>
        (await get(`/api/v1/sites/${domains.id}/domains`, domains.key)).some((one: { id: string }) => one.id === id),
    ),
    register(
      'connect_git',
      (n) => {
        const json = { repo_url: `https://github.com/acme/site-${n}.git`, branch: 'main' }
        return platform.call(`PUT /api/v1/sites/${git.id}/git`, { key: git.key, json })
      },
      (n) => `https://github.com/acme/site-${n}.git`,
      async () => (await get(`/api/v1/sites/${git.id}/git`, git.key)).repo_url,
    ),
    collection(
      'operator: create key',
      () => platform.operator(`POST /operator/v1/projects/${keysProject}/keys`, { name: 'k', scope: 'full' }),
      async ({ key }) => (await platform.call('GET /api/v1/whoami', { key })).status === 200,
    ),
  ]
}

/** Sends the writes of one writer until stopped, and remembers what was acknowledged. */
function keepWriting(writer: Writer) {
  const statuses = new Map<number, number>()
  let [sent, acked] = [-1, -1]
  const stopped = new AbortController()
  const writing = (async () => {
    while (!stopped.signal.aborted) {
      sent += 1
      const answer = await writer.write(sent).catch(() => ({ status: 0, body: undefined }))
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
      if (answer.status === 200) {
        acked = sent
        writer.acknowledged?.(sent, answer.body)
      }
      // leaves the database something of the processor
      await pause(20)
    }
  })()
  return {
    acked: () => acked,
    statuses,
    async stop() {
      stopped.abort()
      await writing
    },
    lost: () => writer.lost(acked, sent),
    name: writer.name,
  }
}

/** Numbers in [0, 1) that the seed decides. */
function randomFrom(seed: number) {
  let state = seed
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32
    return state / 2 ** 32
  }
}

test('13: kill -9 of the api while every write route is in use loses nothing that was answered with 200', async () => {
  const seed = Number(process.env['SEED'] ?? Date.now() % 100_000)
  const random = randomFrom(seed)
  const running = (await writers()).map(keepWriting)
  const restarts: number[] = []
  for (let i = 0; i < kills; i++) {
    const before = running.map((one) => one.acked())
    const unused = () => running.filter((one, index) => one.acked() === before[index]).map(({ name }) => name)
    const deadline = performance.now() + 120_000
    while (unused().length > 0) {
      if (performance.now() > deadline) throw new Error(`never answered with 200: ${unused().join(', ')}`)
      await pause(20)
    }
    await pause(random() * longestPauseMs)
    restarts.push(await platform.restart('api', 'SIGKILL'))
  }
  await Promise.all(running.map((one) => one.stop()))
  const lost = (await Promise.all(running.map((one) => one.lost()))).flat()
  const count = (status: number) => running.reduce((sum, one) => sum + (one.statuses.get(status) ?? 0), 0)
  report('13', `${lost.length} of ${count(200)} acknowledged writes lost in ${kills} kills (seed ${seed})`, '0 lost')
  expect(lost).toEqual([])
  const unexpected = running.flatMap(({ name, statuses }) =>
    [...statuses.keys()].filter((status) => ![0, 200, 404, 409, 429, 503].includes(status)).map((status) => `${name}: ${status}`),
  )
  expect(unexpected).toEqual([])
  await expectNothingHalfWritten()
})

/** Every deploy has ended, a site has one active deploy at most, which is the one it names, and the edge serves it. */
async function expectNothingHalfWritten(): Promise<void> {
  for (const site of sites.values()) {
    const deploys = (await get(`/api/v1/sites/${site.id}/deploys?limit=200`, site.key)) as { id: string }[]
    const endings = await Promise.all(deploys.map(({ id }) => platform.reaches(site, id)))
    const active = endings.filter(({ status }) => status === 'active').map(({ id }) => id)
    const shown = await get(`/api/v1/sites/${site.id}`, site.key)
    expect(active).toEqual(shown.active_deploy_id === null ? [] : [shown.active_deploy_id])
  }
  const made = (await get('/api/v1/sites', siteOf('kill-names').key)) as { subdomain: string }[]
  const subdomains = made.map(({ subdomain }) => subdomain)
  expect(subdomains.length).toBe(new Set(subdomains).size)
  for (const name of ['kill-files', 'kill-manifest', 'kill-archive', 'kill-activate'])
    expect((await platform.call('GET /', { host: siteOf(name).host })).status).toBe(200)
}
