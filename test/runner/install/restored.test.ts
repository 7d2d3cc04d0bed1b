import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type BuildFiles, expectIsolation, openBuilder, writes } from '../builder.ts'
import { lockedPackage } from '../locks.ts'

const restored = 'node_modules restored from the last install'

let builder: Awaited<ReturnType<typeof openBuilder>>
beforeAll(async () => {
  builder = await openBuilder({ env: { PLINTH_BUILD_TIMEOUT: '120s' } })
  expectIsolation(builder.sandbox.status)
})
afterAll(() => builder[Symbol.asyncDispose]())

const npm = lockedPackage('npm')
const page = "require('node:fs').mkdirSync('dist'); require('node:fs').writeFileSync('dist/index.html', require('ms')(60000));"
/** The small package with another program for its build, which decides nothing about its install. */
const building = (program: string): BuildFiles => ({ ...npm, 'build.cjs': `${page} ${program}` })

async function build(project_id: string, files: BuildFiles, root_dir: string | null = null) {
  const built = await builder.build(files, { input: { project_id }, settings: { root_dir } })
  return {
    ...built,
    isRestored: built.log.includes(restored),
    page: built.outcome === 'built' ? await built.read('index.html') : '',
  }
}

function withPackage(change: (parsed: Record<string, Record<string, string>>) => void): BuildFiles {
  const parsed = JSON.parse(npm['package.json'] as string)
  change(parsed)
  return { ...npm, 'package.json': JSON.stringify(parsed) }
}

describe('what a build has installed', { timeout: 240_000 }, () => {
  const small = lockedPackage('Yarn 4.18')
  // Yarn writes package.json again when it would indent it differently
  const indented = `${JSON.stringify(JSON.parse(small['package.json'] as string), null, 2)}\n`
  const linked = { ...small, 'package.json': indented, '.yarnrc.yml': 'nodeLinker: node-modules\n' }
  test.each<[string, BuildFiles, string, string]>([
    ['npm', npm, 'npm ci', 'package-lock.json'],
    ['pnpm 10', lockedPackage('pnpm 10'), 'pnpm install --frozen-lockfile', 'pnpm-lock.yaml'],
    ['pnpm 8', lockedPackage('pnpm 8'), 'pnpm install --frozen-lockfile', 'pnpm-lock.yaml'],
    ['Yarn 1', lockedPackage('Yarn 1'), 'yarn install --frozen-lockfile', 'yarn.lock'],
    ['Yarn 4 with node_modules', linked, 'yarn install --immutable', 'yarn.lock'],
  ])('69 B01: by %s is there for the next, and the log says so', async (project, files, command, lock) => {
    expect(await build(project, files)).toMatchObject({ error: '', isRestored: false })
    for (let i = 0; i < 2; i++) {
      const next = await build(project, files)
      expect(next).toMatchObject({ error: '', page: '1m', phases: expect.arrayContaining(['install', 'build']) })
      const [program] = command.split(' ')
      expect(next.log).toContain(
        `$ node -v\nv20.20.2\n$ ${command}\n${restored} of the same ${lock} (1 package)\n$ ${program} run build\n`,
      )
    }
    expect(await builder.leftovers()).toEqual([])
  })

  test.each(['Yarn 3', 'Yarn 4.18'] as const)('69: by %s without node_modules is installed each time', async (manager) => {
    for (let i = 0; i < 2; i++) {
      expect(await build(manager, lockedPackage(manager))).toMatchObject({ error: '', isRestored: false, page: '1m' })
    }
  })

  test('69: is not there for another project, lock file, package.json, setting, Node or folder', async () => {
    await build('key', npm)
    const lock = npm['package-lock.json'] as string
    const moved = Object.fromEntries(Object.entries(npm).map(([name, file]) => [`app/${name}`, file]))
    const others = [
      await build('another', npm),
      await build('key', { ...npm, 'package-lock.json': `${lock}\n` }),
      await build(
        'key',
        withPackage((parsed) => Object.assign(parsed, { description: 'new' })),
      ),
      await build('key', { ...npm, '.npmrc': 'fund=false\n' }),
      await build('key', { ...npm, '.nvmrc': '22' }),
      await build('key', { 'index.html': '', ...moved }, 'app'),
    ]
    for (const other of others) expect(other).toMatchObject({ error: '', isRestored: false, page: '1m' })
    expect(await build('key', building('//'))).toMatchObject({ isRestored: true, page: '1m' })
    const inFolder = await build('key', { 'index.html': '', ...moved }, 'app')
    expect(inFolder.log).toContain(`\n$ cd app && npm ci\n${restored}`)
    expect(inFolder.page).toBe('1m')
  })

  test('69: is installed each time where the project has a script for that', async () => {
    const files = withPackage(({ scripts }) => Object.assign(scripts ?? {}, { postinstall: 'echo made >> made' }))
    for (let i = 0; i < 2; i++) {
      const built = await build('script', { ...files, 'build.cjs': `${page} require('node:fs').cpSync('made', 'dist/made')` })
      expect(built).toMatchObject({ isRestored: false, error: '' })
      expect(await built.read('made')).toBe('made\n')
    }
  })

  test('69: is dropped when a build with it fails, and not when the install was new', async () => {
    const failing = await build('failing', building('process.exit(3)'))
    expect(failing).toMatchObject({ outcome: 'failed', isRestored: false })
    const again = await build('failing', building('process.exit(3)'))
    expect(again).toMatchObject({ outcome: 'failed', isRestored: true })
    expect(again.error).toMatch(/^npm run build failed with exit code 3\n/)
    expect(again.log).toMatch(/\nfailed: npm run build .*\nthe next build installs its packages again\n$/)
    expect(await build('failing', npm)).toMatchObject({ error: '', isRestored: false })
    expect(await build('failing', npm)).toMatchObject({ error: '', isRestored: true })
  })

  test('69: is dropped when a build is stopped', async () => {
    await build('stopped', npm)
    const stop = new AbortController()
    const options = {
      input: { project_id: 'stopped' },
      signal: stop.signal,
      onPhase: (phase: string) => phase === 'build' && stop.abort(),
    }
    await expect(builder.build(npm, options)).rejects.toThrow()
    expect(await builder.leftovers()).toEqual([])
    expect(await build('stopped', npm)).toMatchObject({ error: '', isRestored: false, page: '1m' })
  })

  test('69: holds nothing of what a build adds to it', async () => {
    const paths = ['evil/index.js', '.cache/evil', 'ms/evil.js'].map((path) => `node_modules/${path}`)
    const looking = `console.log('found', ${JSON.stringify(paths)}.filter((path) => require('node:fs').existsSync(path)))`
    const adding = `{ ${writes(...paths)} }`
    for (const isRestored of [false, true])
      expect(await build('adding', building(adding))).toMatchObject({ error: '', isRestored })
    const next = await build('adding', building(looking))
    expect(next).toMatchObject({ error: '', isRestored: true })
    expect(next.log).toContain('\nfound []\n')
  })

  test('69: is given up when a build changes it, and another project never sees that', async () => {
    const changing = building("require('node:fs').writeFileSync(require.resolve('ms'), 'module.exports = () => \"poisoned\"')")
    await build('clean', npm)
    await build('poisoned', npm)
    expect(await build('poisoned', changing)).toMatchObject({ error: '', isRestored: true })
    expect(await build('poisoned', npm)).toMatchObject({ isRestored: false, page: '1m' })
    expect(await build('clean', npm)).toMatchObject({ isRestored: true, page: '1m' })
  })

  test('69: goes to one of two builds at once', async () => {
    await build('at once', npm)
    const two = await Promise.all([build('at once', npm), build('at once', npm)])
    expect(two.map(({ error, page }) => error + page)).toEqual(['1m', '1m'])
    expect(two.filter(({ isRestored }) => isRestored)).toHaveLength(1)
  })
})
