import { execFileSync } from 'node:child_process'
import { link, mkdir, mkdtemp, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Cas, ObjectBatch } from '../../../infra/cas/cas.ts'
import { openDiskCas } from '../../../infra/cas/disk.ts'
import { type CollectOptions, collectFiles } from '../../../runner/output/collect.ts'
import { openReaders, type Reader, type Readers } from '../../../runner/readers.ts'
import { isRealFolder } from '../../../runner/sandbox/hostile-tree.ts'

let folder = ''
let dist = ''
let cas: Cas
let readers: Readers
let reader: Reader
beforeAll(async () => {
  readers = openReaders()
})
afterAll(() => readers[Symbol.asyncDispose]())
beforeEach(async () => {
  reader = await readers.take(new AbortController().signal)
  await reader.call('openLog', [])
  folder = await mkdtemp(join(tmpdir(), 'plinth-collect-'))
  dist = join(folder, 'dist')
  cas = await openDiskCas(join(folder, 'cas'))
  await put('index.html', '<p>')
  await writeFile(join(folder, 'secret'), 'secret of the host')
})
afterEach(async () => {
  await reader[Symbol.asyncDispose]()
  await rm(folder, { recursive: true })
})

async function put(path: string, content = 'x') {
  await mkdir(dirname(join(dist, path)), { recursive: true })
  await writeFile(join(dist, path), content)
}

const listing = (): Pick<CollectOptions, 'listFolder' | 'skip'> => ({
  listFolder: (...args) => reader.call('listFolder', ...args),
  skip: (...args) => reader.call('skip', ...args),
})

async function collect(limits: { maxFiles?: number; maxPathBytes?: number; maxBytes?: number; signal?: AbortSignal } = {}) {
  await using objects = cas.batch()
  const files = await collectFiles(dist, {
    source: folder,
    objects,
    ...listing(),
    maxFiles: limits.maxFiles ?? 1000,
    maxPathBytes: limits.maxPathBytes ?? 1e6,
    maxBytes: limits.maxBytes ?? 1e9,
    overMaxBytes: 'over the quota',
    signal: limits.signal ?? new AbortController().signal,
  })
  await objects.publish()
  const listed = await reader.call('listSkipped')
  return { paths: files.map((file) => file.path), files, skipped: listed.map(({ path }) => path), listed }
}

const contentOf = async (sha256: string) => (await (await cas.open(sha256))?.bytes())?.toString()

test('D11: stores every file, sorted, and text with a gzip variant', async () => {
  await put('b.css', 'body{}'.repeat(200))
  await put('a/z.png', 'p'.repeat(2000))
  await put('A.html')
  const { files, skipped } = await collect()
  expect(files.map((file) => file.path)).toEqual(['A.html', 'a/z.png', 'b.css', 'index.html'])
  expect(skipped).toEqual([])
  const [html, png, css] = files
  expect(await contentOf(css?.sha256 ?? '')).toBe('body{}'.repeat(200))
  const encoded = await Promise.all([html, png, css].map((file) => cas.open(file?.sha256 ?? '', 'gzip')))
  expect(encoded.map((object) => object !== undefined)).toEqual([false, false, true])
  for (const object of encoded) await object?.close()
})

test('V13 V14: service files are left out and listed', async () => {
  const service = [
    '.env',
    '.env.local',
    '.git/HEAD',
    '.gitignore',
    '.npmrc',
    '__svc/login.html',
    'a/.DS_Store',
    'node_modules/x/i.js',
  ]
  // bundlers copy files out of packages
  const published = ['.well-known/x.txt', 'assets/node_modules/fonts/a.woff2']
  for (const path of [...service, ...published]) await put(path)
  const { paths, skipped } = await collect()
  expect(paths).toEqual([...published, 'index.html'])
  expect(skipped.sort()).toEqual(service.sort())
})

test('V18: a server program is a file like any other', async () => {
  await put('server.js', 'require("http")')
  expect((await collect()).paths).toEqual(['index.html', 'server.js'])
})

test('links, second names, pipes and sockets are never read', async () => {
  await symlink(join(folder, 'secret'), join(dist, 'link.txt'))
  await symlink(folder, join(dist, 'up'))
  await link(join(folder, 'secret'), join(dist, 'hard.txt'))
  execFileSync('mkfifo', [join(dist, 'pipe')])
  const server = createServer().listen(join(dist, 'socket'))
  await new Promise((listening) => server.once('listening', listening))
  const { paths, listed } = await collect()
  await new Promise((closed) => server.close(closed))
  expect(paths).toEqual(['index.html'])
  expect(Object.fromEntries(listed.map(({ path, reason }) => [path, reason]))).toEqual({
    'hard.txt': 'a second name of a file outside of what is published',
    'link.txt': 'a link out of the tree',
    pipe: 'a special file',
    socket: 'a special file',
    up: 'a link out of the tree',
  })
})

test('D11: a file with several names in the output is a file under each of them', async () => {
  await put('a/one.html', 'same')
  await link(join(dist, 'a/one.html'), join(dist, 'two.html'))
  await mkdir(join(dist, 'b'))
  await link(join(dist, 'a/one.html'), join(dist, 'b/three.html'))
  const { files, skipped } = await collect()
  expect(skipped).toEqual([])
  expect(files.map(({ path, size }) => [path, size])).toEqual([
    ['a/one.html', 4],
    ['b/three.html', 4],
    ['index.html', 3],
    ['two.html', 4],
  ])
  expect(await contentOf(files.at(-1)?.sha256 ?? '')).toBe('same')
  await expect(collect({ maxBytes: 14 })).rejects.toThrow('over the quota')
  await expect(collect({ maxFiles: 3 })).rejects.toThrow('there are more than 3 files to publish')
})

test('D11: with one more name outside of the output, none of its names is taken', async () => {
  await put('one.html')
  await link(join(dist, 'one.html'), join(dist, 'two.html'))
  await link(join(dist, 'one.html'), join(folder, 'three.html'))
  const { paths, skipped } = await collect()
  expect(paths).toEqual(['index.html'])
  expect(skipped.sort()).toEqual(['one.html', 'two.html'])
})

test('D11: links inside the output are copies of what they lead to', async () => {
  await put('v2/a.html', 'a')
  await put('v2/b/c.html', 'c')
  await symlink('v2', join(dist, 'latest'))
  await symlink('../../index.html', join(dist, 'v2/b/home.html'))
  await symlink('latest/b/home.html', join(dist, 'start.html'))
  await symlink('nothing', join(dist, 'broken'))
  await symlink('.', join(dist, 'v2/self'))
  const { files, listed } = await collect()
  expect(listed).toEqual([{ path: 'broken', reason: 'a link to something that is not in the tree' }])
  expect(files.map(({ path }) => path)).toEqual([
    'index.html',
    'latest/a.html',
    'latest/b/c.html',
    'start.html',
    'v2/a.html',
    'v2/b/c.html',
    'v2/b/home.html',
    'v2/self/a.html',
    'v2/self/b/c.html',
  ])
  const original = files.find(({ path }) => path === 'index.html')?.sha256
  expect(files.find(({ path }) => path === 'v2/b/home.html')?.sha256).toBe(original)
  await expect(collect({ maxFiles: 8 })).rejects.toThrow('there are more than 8 files to publish')
})

test('names that cannot be published are left out and listed', async () => {
  for (const name of ['a\\b', 'a\nb', 'e\u0301', '\u00e9']) await put(name)
  const { paths, skipped } = await collect()
  expect(paths).toEqual(['index.html', '\u00e9'])
  expect(skipped.sort()).toEqual(['a\\b', 'a\ufffdb', '\u00e9'].sort())
})

test('a folder that becomes a link while it is read leads nowhere', async () => {
  await mkdir(join(folder, 'outside'))
  await writeFile(join(folder, 'outside', 'f0'), 'secret of the host')
  for (let i = 0; i < 40; i++) await put(`sub/f${i}`, 'mine')
  // the swap happens at every put, so between any two steps of the walk
  let swaps = 0
  await using objects = cas.batch()
  const swapping: ObjectBatch = {
    ...objects,
    async add(bytes, options) {
      const stored = await objects.add(bytes, options)
      if (swaps++ === 0) {
        await rename(join(dist, 'sub'), join(dist, '..', 'moved'))
        await symlink(join(folder, 'outside'), join(dist, 'sub'))
      }
      return stored
    },
  }
  const signal = new AbortController().signal
  const files = await collectFiles(dist, {
    source: folder,
    objects: swapping,
    ...listing(),
    maxFiles: 100,
    maxPathBytes: 1e6,
    maxBytes: 1e9,
    overMaxBytes: '',
    signal,
  })
  await objects.publish()
  expect(swaps).toBeGreaterThan(0)
  for (const file of files) expect(await contentOf(file.sha256)).not.toContain('secret')
})

test('a folder behind a link is never read, wherever in its path the link is', async () => {
  await mkdir(join(folder, 'outside', 'app', 'dist'), { recursive: true })
  await writeFile(join(folder, 'outside', 'app', 'dist', 'index.html'), 'secret of the host')
  await symlink(join(folder, 'outside'), join(dist, 'packages'))
  await symlink(join(folder, 'outside', 'app', 'dist'), join(dist, 'out'))
  await symlink('/', join(dist, 'root'))
  const signal = new AbortController().signal
  for (const path of ['packages/app/dist', 'out', 'root', 'root/etc', '../outside/app/dist', 'index.html', 'none']) {
    const reading = collectFiles(join(dist, path), {
      source: dist,
      objects: cas.batch(),
      ...listing(),
      maxFiles: 100,
      maxPathBytes: 1e6,
      maxBytes: 1e9,
      overMaxBytes: '',
      signal,
    })
    await expect(reading, path).rejects.toThrow(/is a link, not a folder of the build/)
  }
})

test('only real folders count as output', async () => {
  await put('.vitepress/dist/index.html')
  await symlink(folder, join(dist, 'out'))
  await symlink(join(dist, '.vitepress'), join(dist, '.output'))
  const found = await Promise.all(
    ['.vitepress/dist', 'out', '.output/dist', 'index.html', 'none'].map((path) => isRealFolder(dist, path)),
  )
  expect(found).toEqual([true, false, false, false, false])
})

test('a tree deeper than 128 folders is cut there', async () => {
  await put(`${'d/'.repeat(127)}ok.txt`)
  await put(`${'e/'.repeat(140)}deep.txt`)
  const { paths, skipped } = await collect()
  expect(paths).toEqual([`${'d/'.repeat(127)}ok.txt`, 'index.html'])
  expect(skipped).toHaveLength(1)
})

test('paths with more bytes together than allowed are refused, and what to do is said', async () => {
  for (let i = 0; i < 10; i++) await put(`${'long'.repeat(10)}${i}`)
  await expect(collect({ maxPathBytes: 400 })).rejects.toThrow(
    'the paths of the files to publish have more than 400 bytes together; shorten the names of files and folders',
  )
  expect((await collect({ maxPathBytes: 420 })).paths).toHaveLength(11)
})

test('D04: more files or bytes than allowed are refused, and leave no open file', async () => {
  for (let i = 0; i < 30; i++) await put(`f${i}`, 'ten bytes.')
  await expect(collect({ maxFiles: 30 })).rejects.toThrow('there are more than 30 files to publish')
  await expect(collect({ maxBytes: 302 })).rejects.toThrow('over the quota')
  expect((await collect({ maxFiles: 31, maxBytes: 303 })).paths).toHaveLength(31)
  const open = await readdir('/proc/self/fd')
  await expect(collect({ maxBytes: 100 })).rejects.toThrow('over the quota')
  expect((await readdir('/proc/self/fd')).length).toBe(open.length)
})

test('stops when it is cancelled', async () => {
  await expect(collect({ signal: AbortSignal.abort(new Error('cancelled')) })).rejects.toThrow('cancelled')
})
