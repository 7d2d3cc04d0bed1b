import { once } from 'node:events'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type ConfinementOptions, openConfinement } from '../../infra/images/confine.ts'
import { createLogoResizer } from '../../infra/images/resize-logo.ts'
import { createLogger } from '../../infra/log.ts'

const code = resolve(import.meta.dirname, '../..')
const isRoot = process.getuid?.() === 0
const log = createLogger('test', 'silent')

let dir: string
let options: ConfinementOptions
let port: number
const stack = new AsyncDisposableStack()
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-confine-'))
  stack.defer(() => rm(dir, { recursive: true, force: true }))
  await chmod(dir, 0o777)
  await writeFile(join(dir, 'open'), 'open to everybody', { mode: 0o644 })
  await writeFile(join(dir, 'secret-key'), 'of root', { mode: 0o600 })
  for (const listen of [{ port: 0, host: '127.0.0.1' }, { path: join(dir, 'api.sock') }]) {
    const server = createServer((socket) => socket.on('error', () => undefined).end('reached'))
    server.listen(listen)
    await once(server, 'listening')
    const address = server.address()
    if (address !== null && typeof address !== 'string') port = address.port
    stack.defer(() => void server.close())
  }
  await chmod(join(dir, 'api.sock'), 0o666)
  options = { dataDir: dir, bwrap: inject('buildTools').bwrap, sandbox: 'required', log }
})
afterAll(() => stack.disposeAsync())

/** What a stranger's image would try once it runs code in its decoder: what became of each attempt. */
async function attempts(more: Partial<ConfinementOptions> = {}): Promise<Record<string, unknown>> {
  const confinement = openConfinement(code, { ...options, ...more })
  const given = JSON.stringify({ dir, code, port, uid: confinement.uid, parent: process.pid })
  const child = await confinement.start(['--input-type=module', '-e', probe, given])
  child.stdin.end()
  return JSON.parse(await text(child.stdout))
}

const probe = `
const given = JSON.parse(process.argv[1])
const { becomeUser } = await import(given.code + '/infra/become-user.ts')
await import(given.code + '/node_modules/sharp/dist/index.mjs')
if (given.uid !== undefined) becomeUser(given.uid)
const fs = await import('node:fs')
const net = await import('node:net')
const os = await import('node:os')
const { spawnSync } = await import('node:child_process')
const codeOf = (error) => error.code ?? String(error)
const tried = (attempt) => { try { return attempt() } catch (error) { return codeOf(error) } }
const reached = (target) => new Promise((resolve) => {
  const socket = net.connect(target).on('connect', () => resolve('reached')).on('error', (error) => resolve(codeOf(error)))
  socket.unref()
})
const said = {
  'the users of the machine': tried(() => fs.readFileSync('/etc/passwd', 'utf8')),
  'the passwords of the machine': tried(() => fs.readFileSync('/etc/shadow', 'utf8')),
  'the secret key': tried(() => fs.readFileSync(given.dir + '/secret-key', 'utf8')),
  'a file that is open to everybody': tried(() => fs.readFileSync(given.dir + '/open', 'utf8')),
  'the environment of the api': tried(() => fs.readFileSync('/proc/' + given.parent + '/environ', 'utf8')),
  'writing': tried(() => fs.writeFileSync('/made', 'x')),
  'writing where everybody may': tried(() => fs.writeFileSync(given.dir + '/made', 'x')),
  'writing into the code': tried(() => fs.appendFileSync(given.code + '/infra/become-user.ts', 'x')),
  'a program': tried(() => spawnSync('/bin/sh', ['-c', 'echo ran']).stdout?.toString() ?? 'no such program'),
  'ending the api': tried(() => process.kill(given.parent, 0)),
  'root again': tried(() => process.setuid(0)),
  'another user': tried(() => process.setuid(given.uid === undefined ? 1234 : given.uid + 1)),
  'a port of the machine': await reached({ port: given.port, host: '127.0.0.1' }),
  'the socket of the api': await reached(given.dir + '/api.sock'),
  top: tried(() => fs.readdirSync('/').sort()),
  interfaces: Object.keys(os.networkInterfaces()),
  user: process.getuid(),
  groups: process.getgroups(),
  environment: Object.keys(process.env).filter((name) => !['PWD', 'OLDPWD', 'SHLVL', '_', 'VIPSHOME'].includes(name)),
  limits: Object.fromEntries(Object.entries(process.report.getReport().userLimits ?? {}).map(([name, { hard }]) => [name, hard])),
}
process.stdout.write(JSON.stringify(said))
`

describe('a process that decodes an image', () => {
  let said: Record<string, unknown>
  beforeAll(async () => {
    said = await attempts()
  })

  test('reads no file but our code and the libraries of the system', () => {
    for (const what of [
      'the users of the machine',
      'the passwords of the machine',
      'the secret key',
      'the environment of the api',
    ])
      expect([what, said[what]]).toEqual([what, expect.stringMatching(/^(ENOENT|EACCES)$/)])
    expect(said['a file that is open to everybody']).toBe('ENOENT')
    const parents = [dir, code, process.execPath].map((path) => path.split('/')[1])
    const known = ['etc', 'lib', 'lib64', 'node', 'usr', ...parents.slice(1)]
    expect((said['top'] as string[]).filter((name) => !known.includes(name))).toEqual([])
  })

  test('writes nothing and starts no program', () => {
    for (const what of ['writing', 'writing where everybody may', 'writing into the code'])
      expect([what, said[what]]).toEqual([what, expect.stringMatching(/^(EROFS|ENOENT|EACCES|EFBIG)$/)])
    expect(said['a program']).toBe('no such program')
  })

  test('reaches no port and no socket, and has no network', () => {
    expect(said['a port of the machine']).toMatch(/^(ENETUNREACH|ECONNREFUSED)$/)
    expect(said['the socket of the api']).toBe('ENOENT')
    expect((said['interfaces'] as string[]).filter((name) => name !== 'lo')).toEqual([])
  })

  test('is a user of its own that can become no other, and sees no other process', () => {
    expect(said['user']).not.toBe(process.getuid?.())
    expect(said['groups']).not.toContain(0)
    for (const what of ['root again', 'another user'])
      expect([what, said[what]]).toEqual([what, expect.stringMatching(/^(EPERM|EINVAL)$/)])
    expect(said['ending the api']).toBe('ESRCH')
    expect(said['environment']).toEqual([])
  })

  test('has limits of its own', () => {
    expect(said['limits']).toMatchObject({
      core_file_size_blocks: 0,
      cpu_time_seconds: 10,
      data_seg_size_bytes: 1024 ** 3,
      file_size_blocks: 0,
      open_files: 64,
      ...(isRoot && { max_user_processes: 64 }),
    })
  })
})

describe('where bubblewrap does not work', () => {
  const without = { bwrap: '/nonexistent/bwrap' }
  const image = () =>
    sharp({ create: { width: 9, height: 9, channels: 3, background: '#c00' } })
      .png()
      .toBuffer()

  test('an image is refused, and the answer says why', async () => {
    await expect(createLogoResizer({ ...options, ...without })('project', await image())).rejects.toMatchObject({
      kind: 'unavailable',
      message: expect.stringContaining('cannot decode them in isolation'),
    })
  })

  test('an operator who goes without isolation has images decoded by a user that is not root', async () => {
    expect(await createLogoResizer({ ...options, ...without, sandbox: 'unsafe' })('project', await image())).toBeInstanceOf(
      Buffer,
    )
    const said = await attempts({ ...without, sandbox: 'unsafe' })
    expect(said['limits']).toMatchObject({ core_file_size_blocks: 0, cpu_time_seconds: 10, file_size_blocks: 0 })
    expect(said['environment']).toEqual([])
    if (!isRoot) return
    expect([said['the passwords of the machine'], said['the secret key'], said['root again']]).toEqual([
      'EACCES',
      'EACCES',
      'EPERM',
    ])
    expect([said['user'], said['groups']]).toEqual([said['user'], [said['user']]])
    expect(said['user']).not.toBe(0)
  })
})
