import { globSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { loadConfig } from '../infra/config.ts'
import { bundleWorkflows } from '../workflows/worker.ts'

const root = resolve(import.meta.dirname, '..')
const sources = globSync('{core,infra,services,api,workflows,runner,edge,client}/**/*.{ts,mjs}', { cwd: root })

interface Import {
  readonly file: string
  /** A path from the root, or the name of a package. */
  readonly target: string
  readonly erased: boolean
}

const imports: Import[] = sources.flatMap((file) => {
  const text = readFileSync(join(root, file), 'utf8')
  const statements = text.matchAll(
    /^(?:import|export)\s+(type\s+)?(?:[^'"]*?\s+from\s+)?['"]([^'"]+)['"]|import\(['"]([^'"]+)['"]\)/gm,
  )
  return [...statements].map(([, type, fixed, dynamic]) => {
    const name = fixed ?? dynamic ?? ''
    const target = name.startsWith('.') ? relative(root, resolve(root, file, '..', name)) : name
    return { file, target, erased: type !== undefined }
  })
})

const packageOf = (target: string) =>
  target
    .split('/')
    .slice(0, target.startsWith('@') ? 2 : 1)
    .join('/')
const isOurs = ({ target }: Import) => /^(core|infra|services|api|workflows|runner|edge|client|test)\//.test(target)

/** What each folder may import of ours, besides itself. A longer prefix decides before a shorter one. */
const contract = /^workflows\/contract\//
const infraWithoutDb = /^infra\/(?!db\/)/
const allowed: Record<string, readonly RegExp[]> = {
  core: [],
  infra: [/^core\//],
  'infra/local': [/^core\//, /^infra\//],
  'infra/threads': [/^core\//],
  services: [/^core\//, /^infra\/(?!local\/)/, contract],
  api: [/^core\//, /^infra\/(?!local\/)/, /^services\//, /^workflows\/(client\.ts$|contract\/)/],
  workflows: [/^core\//, /^infra\/(?!local\/)/, /^services\//],
  'workflows/definitions': [/^core\//, contract],
  'workflows/contract': [/^core\//],
  runner: [/^core\//, infraWithoutDb, contract],
  'runner/sandbox': [/^core\//, infraWithoutDb],
  'runner/install': [/^core\//, infraWithoutDb, /^runner\/sandbox\//],
  'runner/output': [/^core\//, infraWithoutDb, /^runner\/sandbox\//],
  'runner/source': [/^core\//, infraWithoutDb, /^runner\/(sandbox|output)\//],
  client: [],
  edge: [/^core\//, infraWithoutDb, /^infra\/db\/feed\.ts$/, /^services\/feeds\//],
}

const ruleOf = (file: string) =>
  Object.keys(allowed)
    .filter((prefix) => file === prefix || file.startsWith(`${prefix}/`))
    .sort((a, b) => b.length - a.length)[0] ?? ''

test('every import between our folders follows an arrow of the architecture', () => {
  const wrong = imports.filter((edge) => {
    const rule = ruleOf(edge.file)
    const own = edge.target.startsWith(`${rule.endsWith('.ts') ? 'nothing' : rule}/`)
    return isOurs(edge) && !own && !(allowed[rule] ?? []).some((arrow) => arrow.test(edge.target))
  })
  expect(wrong).toEqual([])
})

test('only the launcher imports its own folder', () => {
  const inLocal = (path: string) => path.startsWith('infra/local/')
  const isLauncher = (file: string) => inLocal(file) || /^(test|bench)\//.test(file)
  expect(imports.filter(({ file, target }) => inLocal(target) && !isLauncher(file))).toEqual([])
})

/** Subjects of the services: each may import those before it, so that they form no circle. */
const subjects = [
  'feeds',
  'emails',
  'notifications',
  'projects',
  'storage',
  'webhooks',
  'checks',
  'sites',
  'reports',
  'previews',
  'deploys',
  'builds',
  'git',
  'domains',
  'certificates',
  'forms',
  'autoreply',
  'access',
  'messengers',
  'members',
  'payments',
  'stats',
  'plans',
  'removal',
]

test('a subject of the services imports only itself, earlier subjects and what all of them share', () => {
  const places = imports.flatMap(({ file, target }) => {
    const [, from, to] = [file, target].join(' ').match(/^services\/([^/.]+)\/\S+ services\/([^/.]+)\//) ?? []
    return from !== undefined && to !== undefined
      ? [{ file, target, from: subjects.indexOf(from), to: subjects.indexOf(to) }]
      : []
  })
  expect(places.filter(({ from, to }) => from < 0 || to < 0 || to > from)).toEqual([])
  expect(
    readdirSync(join(root, 'services'))
      .filter((name) => !name.includes('.'))
      .sort(),
  ).toEqual(subjects.toSorted())
})

test('the api, the services and the workers take the time from PostgreSQL, whose clock all of them share', () => {
  const timed = globSync('{services,api,workflows}/**/*.ts', { cwd: root }).filter(
    (file) => !file.startsWith('workflows/definitions/'),
  )
  // a deadline of a call is an instant of the clock of this machine
  const ownTime = /new Date\(\)|(?<!withDeadline\()Date\.now\(\)/
  expect(timed.filter((file) => ownTime.test(readFileSync(join(root, file), 'utf8')))).toEqual([])
})

test('the table of arrows is used: imports were found in every folder', () => {
  for (const folder of ['core', 'infra', 'services', 'api', 'workflows', 'runner', 'edge']) {
    expect([folder, imports.some((edge) => edge.file.startsWith(`${folder}/`) && isOurs(edge))]).toEqual([folder, true])
  }
})

test('core imports no package and nothing of Node', () => {
  expect(imports.filter((edge) => edge.file.startsWith('core/') && !isOurs(edge))).toEqual([])
})

/** The only folders that import a package. Others may be imported anywhere. */
const homes: Record<string, readonly string[]> = {
  pg: ['infra/db'],
  kysely: ['infra/db', 'services'],
  koa: ['api'],
  '@koa/router': ['api'],
  '@modelcontextprotocol/server': ['api'],
  'zod-openapi': ['api'],
  'prom-client': ['api'],
  undici: ['infra/caddy'],
  'isomorphic-git': ['infra/git'],
  execa: ['runner', 'infra/local'],
  tar: ['infra/archive', 'infra/toolchain', 'infra/local'],
  yauzl: ['infra/archive'],
  'file-type': ['infra/file-type.ts'],
  sharp: ['infra/images'],
  semver: ['runner'],
  mime: ['infra/media.ts'],
  pino: ['infra/log.ts'],
  'lru-cache': ['edge', 'services/checks'],
  isbot: ['edge/traffic/programs.ts'],
  bowser: ['edge/traffic/programs.ts'],
  htmlparser2: ['services/checks/page-facts.ts'],
  dns2: ['infra/dns'],
  'acme-client': ['infra/acme'],
  'markdown-it': ['services/autoreply/markdown.ts'],
  nodemailer: ['infra/mail'],
  tldts: ['infra/dns', 'infra/local'],
  'openapi-fetch': ['client'],
  '@temporalio/workflow': ['workflows/definitions'],
  '@temporalio/worker': ['infra/temporal', 'workflows/worker.ts', 'workflows/activity-border.ts'],
  '@temporalio/client': ['workflows'],
  '@temporalio/activity': ['infra/temporal', 'runner', 'workflows'],
}

test('a package is imported in its one place', () => {
  const wrong = imports.filter((edge) => {
    const places = homes[packageOf(edge.target)]
    return places && !places.some((place) => edge.file === place || edge.file.startsWith(`${place}/`))
  })
  expect(wrong).toEqual([])
})

test('nothing imports more than types of node:http, which would load undici', () => {
  expect(imports.filter(({ target, erased }) => target === 'node:http' && !erased)).toEqual([])
})

test('only the settings read the environment, besides the scripts that run inside a sandbox', () => {
  const readers = sources.filter(
    (file) => !file.endsWith('.mjs') && /process\.env\b/.test(readFileSync(join(root, file), 'utf8')),
  )
  expect(readers).toEqual(['infra/config.ts'])
})

test('the workflow bundle contains nothing of infra or the services and no Node module', async () => {
  const { code } = await bundleWorkflows(loadConfig())
  expect(code).toContain('workflows/definitions')
  expect(code).not.toContain('/infra/')
  expect(code).not.toContain('/services/')
})

test('the folders explain themselves in at most 40 lines', () => {
  for (const folder of ['core', 'infra', 'services', 'api', 'workflows', 'runner', 'edge', 'client', 'test']) {
    const lines = readFileSync(join(root, folder, 'README.md'), 'utf8').split('\n').length
    expect([folder, lines <= 41]).toEqual([folder, true])
  }
})
