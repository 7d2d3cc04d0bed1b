import { createHmac } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { type MadeEntry, tarGz } from '../infra/archives.ts'
import { type Platform, type Project, type Sent, type Site, storedFiles } from './platform.ts'

const KB = 1024
const MB = 1024 * KB

/** What an attacker has: a project on the free plan, or on a paid one where the attack needs it. */
export interface Attacker {
  readonly platform: Platform
  readonly project: Project
  readonly site: Site
  /** Questions that the name servers have got so far. */
  readonly nameQuestions: () => number
}

/** Who else has to be answered, besides visitors and callers of the api. */
export type Bystander = 'webhook' | 'deploy' | 'build'

type Prepare = (attacker: Attacker) => Promise<() => Promise<unknown>>

/** One request, or a few, that are shaped to cost much more than others of their size. */
export interface ShapedAttack {
  readonly name: string
  readonly victims?: readonly Bystander[]
  /** What is made ready outside of the measured time; answers what attacks. */
  readonly prepare: Prepare
}

const post =
  (path: string, sent: (attacker: Attacker) => Sent): Prepare =>
  async (attacker) => {
    const ready = { key: attacker.project.key, ...sent(attacker) }
    const endpoint = `POST ${path.replace('{site}', attacker.site.id)}`
    return () => attacker.platform.call(endpoint, ready)
  }

const toolCall = (name: string, args: (attacker: Attacker) => unknown) =>
  post('/mcp', (attacker) => ({
    json: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args(attacker) } },
  }))

const repo_url = 'https://git.invalid/owner/site.git'

/** Connects a repository that nobody has; answers the secret of its webhook. */
export async function connectRepository({ platform, project, site }: Attacker, settings: object = {}): Promise<string> {
  const { key } = project
  await platform.call(`PUT /api/v1/sites/${site.id}/git`, { key, json: { repo_url, branch: 'main', ...settings } })
  const { body } = await platform.call(`POST /api/v1/sites/${site.id}/git/webhook`, { key })
  return body.secret
}

/** Connects a repository; answers what sends a proved push with this payload. */
async function connectedHook(attacker: Attacker, settings?: object) {
  const { platform, site } = attacker
  const secret = await connectRepository(attacker, settings)
  return (headers: Readonly<Record<string, string>>, payload: unknown) => {
    const bytes = JSON.stringify(payload)
    const signature = `sha256=${createHmac('sha256', secret).update(bytes).digest('hex')}`
    const sent = { bytes, headers: { ...headers, 'x-hub-signature': signature, 'x-hub-signature-256': signature } }
    return () => platform.call(`POST /hooks/git/${site.id}`, sent)
  }
}

const archiveOf =
  (entries: readonly MadeEntry[]): Prepare =>
  async ({ platform, project, site }) => {
    const archive = tarGz(entries)
    return () => platform.deployArchive(project, site.id, archive)
  }

const buildable: MadeEntry[] = [
  { name: 'package.json', data: JSON.stringify({ name: 'x', version: '1.0.0', scripts: { build: 'node build.cjs' } }) },
]
const lockFile: MadeEntry = {
  name: 'package-lock.json',
  data: JSON.stringify({ name: 'x', version: '1.0.0', lockfileVersion: 3, packages: { '': { name: 'x', version: '1.0.0' } } }),
}
const writesSite = `require('node:fs').mkdirSync('dist'); require('node:fs').writeFileSync('dist/index.html', 'built')`

/** A page that takes a parser long: as large as a request may be, all of one kind. */
const page = (text: string) =>
  post('/api/v1/sites/{site}/deploy-files', () => ({
    json: { files: [{ path: 'index.html', content: text.repeat(Math.floor((5 * MB) / text.length)) }] },
  }))

export const shapedAttacks: readonly ShapedAttack[] = [
  {
    name: 'PATCH root_dir: 60 KB of slashes',
    prepare: async ({ platform, project, site }) => {
      const sent = { key: project.key, json: { name: 'x', root_dir: `x${'/'.repeat(60 * KB)}x` } }
      return () => platform.call(`PATCH /api/v1/sites/${site.id}`, sent)
    },
  },
  {
    name: 'PUT git output_dir: 60 KB of slashes',
    prepare: async ({ platform, project, site }) => {
      const json = { repo_url, branch: 'main', output_dir: `a${'/'.repeat(60 * KB)}x` }
      return () => platform.call(`PUT /api/v1/sites/${site.id}/git`, { key: project.key, json })
    },
  },
  {
    name: 'tool deploy_site: 40 KB of = as base64',
    prepare: toolCall('deploy_site', ({ site }) => ({ site_id: site.id, source_base64: `${'='.repeat(40 * KB)}a` })),
  },
  {
    name: 'signed push: 60 KB of spaces in author.raw',
    prepare: async (attacker) => {
      const push = await connectedHook(attacker)
      const target = { hash: 'a'.repeat(40), message: 'x', author: { raw: `a${' '.repeat(60 * KB)}b` } }
      return push({ 'x-event-key': 'repo:push' }, { push: { changes: [{ new: { type: 'branch', name: 'main', target } }] } })
    },
  },
  {
    name: 'signed push: 100 watch_paths, 20,000 files',
    prepare: async (attacker) => {
      const watch_paths = Array.from({ length: 100 }, (_, i) => `**/a*b*c*d*${i}/**/*e*f*g`)
      const push = await connectedHook(attacker, { watch_paths })
      const modified = Array.from({ length: 20_000 }, (_, i) => `${'abcd/'.repeat(20)}abcdefabcdef${i}`)
      const commit = { id: 'b'.repeat(40), message: 'x', added: [], removed: [], modified }
      const payload = { ref: 'refs/heads/main', before: 'c'.repeat(40), after: commit.id, commits: [commit], head_commit: commit }
      return push(
        { 'x-github-event': 'push', 'x-github-delivery': 'watched' },
        { ...payload, repository: { clone_url: repo_url } },
      )
    },
  },
  {
    name: 'deploy_files: 6 MB of empty strings',
    prepare: post('/api/v1/sites/{site}/deploy-files', () => ({ bytes: `{"files":[${'"",'.repeat(2 * MB)}""]}` })),
  },
  {
    name: 'deploy_files: 6 MB of empty objects',
    prepare: post('/api/v1/sites/{site}/deploy-files', () => ({ bytes: `{"files":[${'{},'.repeat(2 * MB)}{}]}` })),
  },
  {
    name: 'deploy_files: 10,000 wrong entries',
    prepare: post('/api/v1/sites/{site}/deploy-files', () => ({ bytes: `{"files":[${'0,'.repeat(10_000)}0]}` })),
  },
  {
    name: 'deploy_files: 19,000 members of one name',
    prepare: post('/api/v1/sites/{site}/deploy-files', () => ({ bytes: `{${'"content":0,'.repeat(19_000)}"files":[]}` })),
  },
  {
    name: 'deploy_files: 7 MB of escapes',
    prepare: post('/api/v1/sites/{site}/deploy-files', () => ({ bytes: `{"files":["${'\\"'.repeat(3.5 * MB)}"]}` })),
  },
  {
    name: 'check_deploy: 4 MB of zeros',
    prepare: post('/api/v1/sites/{site}/deploys/check', () => ({ bytes: `{"files":[${'0,'.repeat(2 * MB - 20)}0]}` })),
  },
  {
    name: 'deploy_manifest: 4 MB of brackets',
    prepare: post('/api/v1/sites/{site}/deploys/manifest', () => ({ bytes: `{"files":${'['.repeat(4 * MB - 20)}` })),
  },
  {
    name: 'tool server: 21 MB of zeros with a readonly key',
    prepare: post('/mcp', ({ project }) => ({
      key: project.readonlyKey,
      bytes: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_sites","arguments":{"x":[${'0,'.repeat(10.5 * MB)}0]}}}`,
    })),
  },
  {
    name: 'tool server: 21 MB of members with a readonly key',
    prepare: post('/mcp', ({ project }) => ({
      key: project.readonlyKey,
      bytes: `{${Array.from({ length: 1.5 * MB }, (_, i) => `"k${i}":0`).join()}}`,
    })),
  },
  {
    name: 'create_site: 1 MB of brackets',
    prepare: post('/api/v1/sites', () => ({ bytes: '['.repeat(MB - 1) })),
  },
  { name: 'deploy_files: a page of 5 MB of <a', prepare: page('<a ') },
  { name: 'deploy_files: a page of 5 MB of <div>', prepare: page('<div>') },
  { name: 'deploy_files: a page of 5 MB of links', prepare: page('<a href=x>') },
  { name: 'deploy_files: a page of 5 MB of key beginnings', prepare: page('-----BEGIN PRIVATE KEY') },
  {
    name: 'archive: .npmrc of 40 KB of CR',
    victims: ['build'],
    prepare: archiveOf([
      ...buildable,
      lockFile,
      { name: 'build.cjs', data: writesSite },
      { name: '.npmrc', data: '\r'.repeat(40 * KB) },
    ]),
  },
  {
    name: 'archive: 200 folders named by 4 KB of slashes',
    victims: ['build'],
    prepare: archiveOf([
      { name: 'index.html', data: 'x' },
      ...Array.from({ length: 200 }, (_, i): MadeEntry => ({ name: `${i}${'/'.repeat(4 * KB - 10)}x/`, type: 'folder' })),
    ]),
  },
  {
    name: 'build: lines of 32 KB after BEGIN PRIVATE KEY',
    victims: ['build'],
    prepare: archiveOf([
      ...buildable,
      {
        name: 'build.cjs',
        data: `for (let i = 0; i < 5; i++) { console.log('-----BEGIN PRIVATE KEY'); console.log('a'.repeat(32000) + '!' ); console.log('a' + ' '.repeat(32000) + '!') } ${writesSite}`,
      },
    ]),
  },
  {
    // the most files that a deploy may have, and as much of paths
    name: 'ten sites of 20,000 paths of 200 bytes, visited in turns',
    prepare: async ({ platform, project }) => {
      const entries = [
        { name: 'index.html', data: 'x' },
        ...Array.from({ length: 19_990 }, (_, i): MadeEntry => ({ name: `${i}`.padEnd(200, 'p'), data: '' })),
      ]
      const archive = tarGz(entries)
      const sites = await Promise.all(Array.from({ length: 10 }, () => platform.site(project)))
      await Promise.all(sites.map((site) => platform.deployArchive(project, site.id, archive)))
      return async () => {
        for (let round = 0; round < 3; round++) {
          for (const { host } of sites) await platform.call('GET /0', { headers: { host } })
        }
      }
    },
  },
]

/** Many requests or connections at once, beside as many requests and bytes of somebody who means well. */
export interface FillingAttack {
  readonly name: string
  readonly victims?: readonly Bystander[]
  readonly prepare: Prepare
  readonly wellBehaved: Prepare
}

const times = async (count: number, what: (index: number) => Promise<unknown>) =>
  await Promise.all(Array.from({ length: count }, (_, index) => what(index).catch(() => undefined)))

/** Sends the beginning of a request, and then nothing. */
function stall({ platform }: Attacker, head: string, sent: Buffer): Promise<Socket> {
  return new Promise((resolve) => {
    const socket = connect(platform.port, '127.0.0.1', () => {
      socket.write(head)
      socket.write(sent, () => resolve(socket))
    })
    socket.on('error', () => resolve(socket))
    socket.resume()
  })
}

/** @param holdMs how long nothing happens */
const stalled =
  (count: number, bytes: number, holdMs: number, head: (attacker: Attacker) => string): Prepare =>
  async (attacker) => {
    const text = head(attacker)
    const body = Buffer.alloc(bytes, ' ')
    return async () => {
      const sockets = await Promise.race([
        Promise.all(Array.from({ length: count }, () => stall(attacker, text, body))),
        pause(holdMs).then(() => []),
      ])
      await pause(holdMs)
      for (const socket of sockets) socket.destroy()
    }
  }

/** 600 requests of twenty projects at once. */
const lists600: Prepare = async ({ platform }) => {
  const projects = await Promise.all(Array.from({ length: 20 }, () => platform.project('enterprise')))
  return () => times(600, (i) => platform.call('GET /api/v1/sites', { key: projects[i % 20]?.key }))
}

/** Sends so many requests, two at a time. */
const inPairs =
  (count: number, request: (attacker: Attacker, index: number) => () => Promise<unknown>): Prepare =>
  async (attacker) => {
    const requests = Array.from({ length: count }, (_, index) => request(attacker, index))
    const sender = async () => {
      for (let next = requests.pop(); next; next = requests.pop()) await next().catch(() => undefined)
    }
    return () => Promise.all([sender(), sender()])
  }

const deployFilesOf = (sizeMb: number) => {
  const bytes = JSON.stringify(largeFiles(sizeMb))
  return ({ platform, project, site }: Attacker) =>
    () =>
      platform.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: project.key, bytes })
}

const largeFiles = (sizeMb: number): Sent['json'] => ({
  files: [
    { path: 'index.html', content: 'x' },
    ...Array.from({ length: sizeMb }, (_, i) => ({ path: `${i}.txt`, content: `${i}`.padEnd(MB, 'x') })),
  ],
})

export const fillingAttacks: readonly FillingAttack[] = [
  {
    name: '600 create_site of one project at once',
    prepare:
      async ({ platform, project }) =>
      () =>
        times(600, (i) =>
          platform.call('POST /api/v1/sites', { key: project.key, json: { name: 'x', subdomain: `crowd-${i}-x-x-x` } }),
        ),
    wellBehaved: lists600,
  },
  {
    name: '600 requests with invented keys at once',
    prepare:
      async ({ platform }) =>
      () =>
        times(600, (i) => platform.call('GET /api/v1/sites', { key: `svc_${`${i}`.padStart(8, 'x')}_${'k'.repeat(43)}` })),
    wellBehaved: lists600,
  },
  {
    name: '72 deploy_files of 5 MB of one project at once',
    victims: ['deploy'],
    prepare: async (attacker) => {
      const deploy = deployFilesOf(5)(attacker)
      return () => times(72, deploy)
    },
    wellBehaved: inPairs(72, deployFilesOf(5)),
  },
  {
    name: '20 stalled deploy_files of 10 MB',
    victims: ['deploy'],
    prepare: stalled(
      20,
      10 * MB,
      8000,
      ({ project, site }) =>
        `POST /api/v1/sites/${site.id}/deploy-files HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${project.key}\r\nContent-Type: application/json\r\nContent-Length: ${50 * MB}\r\n\r\n`,
    ),
    wellBehaved: inPairs(20, deployFilesOf(10)),
  },
  {
    name: '48 stalled unsigned webhooks of 5 MB',
    victims: ['webhook'],
    prepare: async (attacker) => {
      await connectedHook(attacker)
      const head = `POST /hooks/git/${attacker.site.id} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${5 * MB}\r\n\r\n`
      return await stalled(48, 5 * MB - 10, 8000, () => head)(attacker)
    },
    wellBehaved: async (attacker) => {
      const push = await connectedHook(attacker)
      const repository = { clone_url: repo_url, description: 'x'.repeat(5 * MB - KB) }
      const payload = { ref: 'refs/heads/not-built', before: 'c'.repeat(40), after: 'e'.repeat(40), commits: [], repository }
      const delivery = (i: number) => push({ 'x-github-event': 'push', 'x-github-delivery': `large ${i}` }, payload)
      return await inPairs(48, (_, i) => delivery(i))(attacker)
    },
  },
  {
    name: '500 connections with unfinished headers',
    prepare: stalled(500, 10, 8000, () => 'GET / HTTP/1.1\r\nHost: plinth-demo.plinth.localhost\r\nX-Slow: '),
    wellBehaved: inPairs(
      500,
      ({ platform, site }) =>
        () =>
          platform.call('GET /', { headers: { host: site.host } }),
    ),
  },
]

/** What stays of an attack, or what somebody gets by it, as a number. */
export interface CountedAttack {
  readonly name: string
  readonly plan: string
  readonly what: string
  readonly most: number
  readonly count: (attacker: Attacker) => Promise<number>
}

const secondsOf = async (work: () => Promise<unknown>) => {
  const began = performance.now()
  await work()
  return Math.ceil((performance.now() - began) / 1000)
}

export const countedAttacks: readonly CountedAttack[] = [
  {
    name: '10 refused uploads of 1,500 files',
    plan: 'pro',
    what: 'files that stay in the storage',
    most: 10,
    async count({ platform, project, site }) {
      const before = await storedFiles(platform)
      for (let request = 0; request < 10; request++) {
        const made = Array.from({ length: 1500 }, (_, i) => ({ path: `${i}.txt`, content: `refused ${request} ${i}` }))
        const files = [{ path: 'index.html', content: 'x' }, ...made, { path: 'last.txt', sha256: 'e'.repeat(64) }]
        await platform.call(`POST /api/v1/sites/${site.id}/deploy-files`, { key: project.key, json: { files } })
      }
      return (await storedFiles(platform)) - before
    },
  },
  {
    name: '60 names made and deleted on the free plan',
    plan: 'free',
    what: 'names taken',
    most: 3 * 3 + 10,
    async count({ platform, project: { key } }) {
      let taken = 0
      for (let i = 0; i < 60; i++) {
        const json = { name: 'x', subdomain: `taken-name-${i}` }
        const { status, body } = await platform.call('POST /api/v1/sites', { key, json })
        if (status !== 200) continue
        taken++
        await platform.call(`DELETE /api/v1/sites/${body.id}`, { key })
      }
      return taken
    },
  },
  {
    name: '25 subdomain changes, each cancelled',
    plan: 'pro',
    what: 'emails to the owner',
    most: 8,
    async count({ platform, project: { key }, site }) {
      for (let i = 0; i < 25; i++) {
        await platform.call(`POST /api/v1/sites/${site.id}/subdomain-change`, { key, json: { subdomain: `changed-name-${i}` } })
        await platform.call(`DELETE /api/v1/sites/${site.id}/subdomain-change`, { key })
      }
      const { body } = await platform.operator('GET /operator/v1/mails?limit=100')
      return body.length
    },
  },
  {
    name: 'an unproven domain, added, asked for and deleted 40 times',
    plan: 'pro',
    what: 'questions to name servers',
    most: 10,
    async count({ platform, project: { key }, site, nameQuestions }) {
      const before = nameQuestions()
      for (let i = 0; i < 40; i++) {
        const json = { domain: 'claimed-again.example' }
        const { body } = await platform.call(`POST /api/v1/sites/${site.id}/domains`, { key, json })
        await platform.call(`POST /api/v1/domains/${body.id}/verify`, { key })
        await platform.call(`DELETE /api/v1/domains/${body.id}`, { key })
      }
      return nameQuestions() - before
    },
  },
  {
    name: 'a build that closes its own folder (chmod 000)',
    plan: 'pro',
    what: 'seconds until it has failed',
    most: 20,
    async count({ platform, project, site }) {
      const closes = { name: 'x', version: '1.0.0', scripts: { build: 'chmod 000 .' } }
      const archive = tarGz([{ name: 'package.json', data: JSON.stringify(closes) }])
      return await secondsOf(() => platform.deployArchive(project, site.id, archive))
    },
  },
  {
    name: 'a repository that is away, beside another site of the project',
    plan: 'pro',
    what: 'seconds until the other site is live',
    most: 15,
    async count(attacker) {
      const { platform, project, site } = attacker
      const other = await platform.site(project)
      await connectRepository(attacker)
      await platform.call(`POST /api/v1/sites/${site.id}/git/deploy`, { key: project.key })
      await pause(1000)
      return await secondsOf(() => platform.deployArchive(project, other.id, tarGz([{ name: 'index.html', data: 'x' }])))
    },
  },
]
