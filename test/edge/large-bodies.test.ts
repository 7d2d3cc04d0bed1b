import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { gunzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { openLargeBodies } from '../../edge/large-bodies.ts'
import { counting, openTestEdge } from './test-edge.ts'

test('a file of a megabyte is remembered when it is asked for again, and checked then', async () => {
  const { counts, wrap } = counting()
  await using edge = await openTestEdge({ wrap })
  const megabyte = Buffer.alloc(1024 * 1024, 'large file ')
  await edge.publish('site', { 'index.html': 'home', 'image.bin': megabyte })
  await edge.ask('/')
  const opens = []
  for (let i = 0; i < 4; i++) {
    const before = counts.opens
    expect((await edge.ask('/image.bin')).body.equals(megabyte)).toBe(true)
    opens.push(counts.opens - before)
  }
  expect(opens).toEqual([1, 1, 0, 0])
  expect(counts.open).toBe(0)
})

describe('large files that do not all fit into memory', () => {
  const bytes = 512 * 1024
  const names = Array.from({ length: 6 }, (_, i) => `image-${i}.bin`)
  const images = Object.fromEntries(names.map((name, i) => [name, Buffer.alloc(bytes, `image ${i} `)]))
  /** An edge with room for three of them, and a function that tells which of the requests in a row had to read from the disk. */
  async function openEdge() {
    const { counts, wrap } = counting()
    const edge = await openTestEdge({ wrap, limits: { largeBodyBytes: 3 * bytes } })
    await edge.publish('site', { 'index.html': 'home', ...images })
    const readFor = async (...asked: string[]) => {
      const read: string[] = []
      for (const name of asked) {
        const before = counts.opens
        const { body } = await edge.ask(`/${name}`)
        if (name !== '') expect(body.equals(images[name] ?? Buffer.alloc(0))).toBe(true)
        if (counts.opens > before) read.push(name)
      }
      return read
    }
    await readFor('')
    return { edge, readFor }
  }

  test('do not displace each other when they are asked for in turn', async () => {
    const opened = await openEdge()
    await using _edge = opened.edge
    for (let i = 0; i < 2; i++) await opened.readFor(...names)
    for (let i = 0; i < 2; i++) expect(await opened.readFor(...names)).toEqual(names.slice(3))
    for (let i = 0; i < 2; i++) expect(await opened.readFor(...names.toReversed())).toEqual(names.slice(3).toReversed())
  })

  test('give way to one that is asked for more often', async () => {
    const opened = await openEdge()
    await using _edge = opened.edge
    for (let i = 0; i < 3; i++) await opened.readFor(...names.slice(0, 3))
    const [, , , favourite = ''] = names
    expect(await opened.readFor(...Array.from({ length: 6 }, () => favourite))).toEqual(
      Array.from({ length: 5 }, () => favourite),
    )
    expect(await opened.readFor(...names)).toHaveLength(3)
  })

  test('leave small files in memory', async () => {
    const opened = await openEdge()
    await using _edge = opened.edge
    for (let i = 0; i < 4; i++) await opened.readFor(...names)
    expect(await opened.readFor('')).toEqual([])
  })
})

test('V17: the variant of a large text is streamed at first, and remembered when it is asked for again', async () => {
  const { counts, wrap } = counting()
  await using edge = await openTestEdge({ wrap })
  const text = Buffer.from(Array.from({ length: 40_000 }, (_, i) => `line ${i}\n`).join(''))
  await edge.publish('site', { 'index.html': 'home', 'long.txt': text })
  await edge.ask('/')
  const opens = []
  for (let i = 0; i < 4; i++) {
    const before = counts.opens
    const { headers, body } = await edge.ask('/long.txt', { headers: { 'accept-encoding': 'gzip' } })
    expect([headers['content-encoding'], gunzipSync(body).equals(text)]).toEqual(['gzip', true])
    opens.push(counts.opens - before)
  }
  expect(opens).toEqual([2, 1, 0, 0])
  expect(counts.open).toBe(0)
})

test('bodies that slow visitors still read leave no room for others until they are gone', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const bytes = 1024 * 1024
  const bodies = openLargeBodies(bytes)
  /** Asks for a body until it is clearly the most popular one. */
  function ask(key: string, times: number): boolean {
    for (let i = 0; i < times; i++) bodies.find(key)
    return bodies.admits(key, bytes)
  }
  expect(ask('first', 2)).toBe(true)
  const read: Buffer[] = [Buffer.alloc(bytes)]
  bodies.keep('first', read[0] ?? Buffer.alloc(0))
  expect(ask('second', 4)).toBe(true)
  // of the first one, which leaves, its visitor is sent a part
  read.push(...read.splice(0).map((body) => body.subarray(1)))
  bodies.keep('second', Buffer.alloc(bytes))
  collect()
  await new Promise(setImmediate)
  expect(ask('third', 6)).toBe(false)
  read.length = 0
  await expect
    .poll(() => {
      collect()
      return bodies.admits('third', bytes)
    })
    .toBe(true)
})
