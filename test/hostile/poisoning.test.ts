import { existsSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TrustLevel } from '../../core/build-trust.ts'
import { tarGz } from '../infra/archives.ts'
import { type BuildFiles, expectIsolation, openBuilder, processesWith } from '../runner/builder.ts'
import { lockedPackage } from '../runner/locks.ts'

let builder: Awaited<ReturnType<typeof openBuilder>>
const rows: { attempt: string; by: string; wrote: number; page: string; reached: boolean }[] = []
beforeAll(async () => {
  builder = await openBuilder({ env: { PLINTH_BUILD_TIMEOUT: '300s' } })
  expectIsolation(builder.sandbox.status)
})
afterAll(async () => {
  await builder[Symbol.asyncDispose]()
  const lines = rows.map(({ attempt, by, wrote, page, reached }) =>
    [attempt.padEnd(62), by.padEnd(34), String(wrote).padStart(5), page.padEnd(10), reached ? 'REACHED' : '-'].join('  '),
  )
  process.stdout.write(`${['attempt'.padEnd(62), 'by'.padEnd(34), 'files', 'page'.padEnd(10), 'reached'].join('  ')}\n`)
  process.stdout.write(
    `${lines.join('\n')}\npoisoning attempts ${rows.length}, reached ${rows.filter((row) => row.reached).length}\n`,
  )
})

const clean = '1m'
const page =
  "{ const fs = require('fs'); fs.mkdirSync('dist', { recursive: true }); fs.writeFileSync('dist/index.html', require('ms')(60000)) }"
const evil = "module.exports = () => 'poisoned'\n"
const poisonedTarball = tarGz([
  { name: 'package/package.json', data: JSON.stringify({ name: 'ms', version: '2.1.3', main: './index' }) },
  { name: 'package/index.js', data: evil },
])

/**
 * Puts another `ms` wherever a file of it is found: in node_modules, in the store of pnpm and the folders of Yarn 1, in the archives of
 * later Yarns with a checksum that fits, and in npm's cache with an index that fits. Sizes and times stay as they were.
 */
const attackProgram = `
const fs = require('fs'), path = require('path'), crypto = require('crypto'), zlib = require('zlib')
const evil = ${JSON.stringify(evil)}
const tarball = Buffer.from(${JSON.stringify(poisonedTarball.toString('base64'))}, 'base64')
let wrote = 0
function replace(file, bytes) {
  try {
    const { atime, mtime, mode } = fs.statSync(file)
    fs.chmodSync(file, 0o666)
    fs.writeFileSync(file, bytes)
    fs.chmodSync(file, mode)
    fs.utimesSync(file, atime, mtime)
    wrote++
  } catch (error) { console.log('cannot write', file, error.code) }
}
function poisonZip(bytes) {
  const end = bytes.lastIndexOf(Buffer.from('504b0506', 'hex'))
  let at = bytes.readUInt32LE(end + 16), changed = false
  for (let left = bytes.readUInt16LE(end + 10); left > 0; left--) {
    const [method, size, nameLength, extra, comment, local] = [bytes.readUInt16LE(at + 10), bytes.readUInt32LE(at + 20), bytes.readUInt16LE(at + 28), bytes.readUInt16LE(at + 30), bytes.readUInt16LE(at + 32), bytes.readUInt32LE(at + 42)]
    if (bytes.toString('latin1', at + 46, at + 46 + nameLength).endsWith('/ms/index.js') && method === 0) {
      const start = local + 30 + bytes.readUInt16LE(local + 26) + bytes.readUInt16LE(local + 28)
      bytes.fill(' ', start, start + size)
      bytes.write(evil, start)
      const crc = zlib.crc32(bytes.subarray(start, start + size))
      bytes.writeUInt32LE(crc, at + 16)
      bytes.writeUInt32LE(crc, local + 14)
      changed = true
    }
    at += 46 + nameLength + extra + comment
  }
  return changed
}
function visit(file) {
  const bytes = fs.readFileSync(file)
  const text = bytes.toString('latin1')
  if (text.includes('module.exports = function (val, options)') && !text.startsWith('PK')) return replace(file, evil.padEnd(bytes.length))
  if (file.endsWith('.zip') && file.includes('ms-npm') && poisonZip(bytes)) return replace(file, bytes)
  if (file.includes('/index-v5/') && text.includes('ms-2.1.3.tgz')) {
    const sha = crypto.createHash('sha512').update(tarball).digest()
    const hex = sha.toString('hex')
    const content = path.join(file.slice(0, file.indexOf('/index-v5/')), 'content-v2', 'sha512', hex.slice(0, 2), hex.slice(2, 4), hex.slice(4))
    fs.mkdirSync(path.dirname(content), { recursive: true })
    fs.writeFileSync(content, tarball)
    const lines = text.split('\\n').map((line) => {
      if (!line.includes('ms-2.1.3.tgz')) return line
      const entry = JSON.parse(line.slice(line.indexOf('\\t') + 1))
      Object.assign(entry, { integrity: 'sha512-' + sha.toString('base64'), size: tarball.length })
      const json = JSON.stringify(entry)
      return crypto.createHash('sha1').update(json).digest('hex') + '\\t' + json
    })
    replace(file, lines.join('\\n'))
  }
}
function walk(folder) {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name)
    try { if (entry.isDirectory()) walk(file); else if (entry.isFile() && entry.name !== 'attack.cjs') visit(file) } catch (error) { console.log('cannot read', file, error.code) }
  }
}
for (const folder of [process.env.HOME, '/build']) walk(folder)
console.log('attack wrote ' + wrote)
`

type Manager = 'npm' | 'pnpm 8' | 'pnpm 10' | 'Yarn 1' | 'Yarn 4.18' | 'Yarn 4.18 with node_modules'
const managers: readonly Manager[] = ['npm', 'pnpm 8', 'pnpm 10', 'Yarn 1', 'Yarn 4.18', 'Yarn 4.18 with node_modules']

/** Where the lock file can be without a hash of the package, it is: then nothing but the platform stands in the way. */
function packageOf(manager: Manager): BuildFiles {
  if (manager === 'npm') {
    const files = lockedPackage('npm')
    const lock = JSON.parse(files['package-lock.json'] as string)
    delete lock.packages['node_modules/ms'].integrity
    return { ...files, 'package-lock.json': JSON.stringify(lock) }
  }
  if (manager === 'Yarn 1') {
    const files = lockedPackage('Yarn 1')
    return {
      ...files,
      'yarn.lock': (files['yarn.lock'] as string).replace(/ {2}integrity .*\n/, '').replace(/#[0-9a-f]{40}/, ''),
    }
  }
  if (manager === 'pnpm 8' || manager === 'pnpm 10') return lockedPackage(manager)
  const files = lockedPackage('Yarn 4.18')
  const linker = manager === 'Yarn 4.18' ? '' : 'nodeLinker: node-modules\n'
  // Yarn writes package.json again when it would indent it differently
  const indented = `${JSON.stringify(JSON.parse(files['package.json'] as string), null, 2)}\n`
  return { ...files, 'package.json': indented, '.yarnrc.yml': `checksumBehavior: ignore\n${linker}` }
}

/** With a script of its own an install is run each time, from what was downloaded before; without one its result is kept. */
function withScript(files: BuildFiles, script: string | undefined): BuildFiles {
  if (script === undefined) return files
  const parsed = JSON.parse(files['package.json'] as string)
  Object.assign(parsed.scripts, { postinstall: script })
  return { ...files, 'package.json': `${JSON.stringify(parsed, null, 2)}\n` }
}

interface Attack {
  readonly manager: Manager
  /** What the attacker goes for. */
  readonly store: 'downloads' | 'kept install'
  /** Before, or in place of, the attack by the build. */
  readonly duringInstall?: string
  readonly duringBuild?: string
}

/** Builds of one project, in which attackers and victims differ in nothing that names what is kept. */
function project({ manager, store, duringInstall, duringBuild = "require('./attack.cjs')" }: Attack) {
  const project_id = `${manager} ${store} ${duringInstall ?? ''} ${duringBuild}`
  const files = { ...packageOf(manager), 'attack.cjs': attackProgram }
  const script = store === 'downloads' ? 'exit 0' : undefined

  async function build(trust: TrustLevel, built: BuildFiles) {
    const result = await builder.build(built, { input: { project_id, trust } })
    expect(result.error).toBe('')
    return result
  }

  return { attack, judge, warm: (trust: TrustLevel) => build(trust, { ...withScript(files, script), 'build.cjs': page }) }

  async function attack(trust: TrustLevel): Promise<number> {
    const hostile = { ...withScript(files, duringInstall ?? script), 'build.cjs': `${page} ${duringBuild}` }
    const { log } = await build(trust, hostile)
    return [...log.matchAll(/attack wrote (\d+)/g)].reduce((sum, [, count]) => sum + Number(count), 0)
  }

  /** Builds an honest source twice, as a poison may come with the second, and notes what it got. */
  async function judge(from: string, to: TrustLevel, wrote: number, how = '') {
    for (let i = 0; i < 2; i++) {
      const honest = await build(to, { ...withScript(files, script), 'build.cjs': page })
      const got = await honest.read('index.html')
      rows.push({
        attempt: `${manager}, ${store}${how && `, ${how}`}`,
        by: `${from} -> ${to}`,
        wrote,
        page: got,
        reached: got !== clean,
      })
      expect(got).toBe(clean)
    }
  }
}

const stores = ['downloads', 'kept install'] as const
const everyStore = managers.flatMap((manager) =>
  stores.filter((store) => store === 'downloads' || manager !== 'Yarn 4.18').map((store) => ({ manager, store })),
)

describe('another ms, written by a build program into all that it can reach', { timeout: 900_000 }, () => {
  test.each(everyStore)('69: reaches no build of $manager by its $store', async (target) => {
    const { attack, judge, warm } = project(target)
    await warm('production')
    let wrote = (await attack('preview')) + (await attack('preview'))
    await judge('preview', 'production', wrote)
    wrote = (await attack('fork')) + (await attack('fork'))
    await judge('fork', 'preview', wrote)
    await judge('fork', 'production', wrote)
    wrote = (await attack('production')) + (await attack('production'))
    expect(wrote).toBeGreaterThan(0)
    await judge('production', 'production', wrote)
    await judge('production', 'preview', wrote)
  })
})

describe('another ms, written by a script of the install', { timeout: 900_000 }, () => {
  test.each(managers)('69: reaches no more trusted build of %s', async (manager) => {
    // no packages but those of the registry get a script run by Yarn 4, so there it is the project's own
    const { attack, judge, warm } = project({ manager, store: 'downloads', duringInstall: 'node attack.cjs' })
    await warm('production')
    const preview = await attack('preview')
    expect(preview).toBeGreaterThan(0)
    await judge('preview', 'production', preview, 'by the install')
    const fork = project({ manager, store: 'downloads', duringInstall: 'node ./attack.cjs' })
    const wrote = await fork.attack('fork')
    await fork.judge('fork', 'preview', wrote, 'by the install')
    await fork.judge('fork', 'production', wrote, 'by the install')
  })

  test.each<[string, string, string]>([
    [
      'second names of the files that are set aside',
      'cp -al ~/packages ~/alias; exit 0',
      "try { require('./attack.cjs') } catch (error) { console.log(error) }",
    ],
    [
      'a process that outlives it',
      "setsid nohup sh -c 'while :; do sleep 0.2; node attack.cjs; done' > /dev/null 2>&1 & exit 0",
      "require('child_process').execSync('sleep 3')",
    ],
    [
      'an open descriptor that outlives it',
      "setsid nohup sh -c 'cd ~/packages; sleep 1; exec node /build/attack.cjs' > /dev/null 2>&1 & exit 0",
      "require('child_process').execSync('sleep 3')",
    ],
  ])('69: reaches no build of the same level by %s', async (how, duringInstall, duringBuild) => {
    for (const manager of ['pnpm 10', 'Yarn 1'] as const) {
      const { attack, judge } = project({ manager, store: 'downloads', duringInstall, duringBuild })
      await attack('production')
      const wrote = await attack('production')
      await judge('production', 'production', wrote, how)
    }
  })
})

describe('a kept install', { timeout: 300_000 }, () => {
  test.skipIf(!existsSync('/usr/bin/python3'))('69: is given up when a build writes to it through a map of memory', async () => {
    const program =
      'import mmap, os; path = "node_modules/ms/index.js"; s = os.stat(path); f = open(path, "r+b"); m = mmap.mmap(f.fileno(), 0); m[:] = %r.ljust(len(m)).encode(); m.close(); os.utime(path, ns=(s.st_atime_ns, s.st_mtime_ns)); print("attack wrote 1")'
    const duringBuild = `require('child_process').execFileSync('/usr/bin/python3', ['-c', ${JSON.stringify(program.replace('%r', JSON.stringify(evil)))}], { stdio: 'inherit' })`
    const { attack, judge, warm } = project({ manager: 'npm', store: 'kept install', duringBuild })
    await warm('production')
    const wrote = await attack('production')
    expect(wrote).toBe(1)
    await judge('production', 'production', wrote, 'by mmap')
  })
})

describe('what a build leaves besides', { timeout: 300_000 }, () => {
  test('69: is met by no build of another project', async () => {
    const marker = 'left-behind-by-another-build'
    const places = '[process.env.HOME, "/tmp", "/dev/shm", "/build"]'
    const leaving = `const fs = require('fs');
      for (const folder of ${places}) try { fs.writeFileSync(folder + '/${marker}', 'x') } catch {}
      process.env.${marker.replaceAll('-', '_')} = 'x';
      require('child_process').spawn('node', ['-e', 'setTimeout(() => {}, 300000)', '${marker}'], { detached: true, stdio: 'ignore' }).unref();
      ${page}`
    const looking = `const fs = require('fs'), found = [];
      for (const folder of ${places}) for (const name of fs.readdirSync(folder)) if (name.includes('${marker}')) found.push(folder);
      for (const pid of fs.readdirSync('/proc')) try { if (fs.readFileSync('/proc/' + pid + '/cmdline', 'utf8').includes('${marker}')) found.push(pid) } catch {}
      if (JSON.stringify(process.env).includes('${marker.replaceAll('-', '_')}')) found.push('environment');
      console.log('found ' + JSON.stringify(found));
      ${page}`
    const files = lockedPackage('npm')
    for (let round = 0; round < 3; round++) {
      const left = await builder.build({ ...files, 'build.cjs': leaving }, { input: { project_id: 'leaving' } })
      expect(left.error).toBe('')
      expect(await processesWith(marker)).toEqual([])
      const other = await builder.build({ ...files, 'build.cjs': looking }, { input: { project_id: `looking ${round}` } })
      expect(other.error).toBe('')
      expect(other.log).toContain('found []')
      expect(other.log).not.toContain('at hand')
      expect(other.log).not.toContain('restored')
    }
    expect(await builder.leftovers()).toEqual([])
  })
})
