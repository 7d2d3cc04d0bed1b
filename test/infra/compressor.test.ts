import { readFileSync } from 'node:fs'
import { brotliDecompressSync, gzipSync, zstdDecompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { openCompressor } from '../../infra/compression/compressor.ts'

const words = (seed: number) => Array.from({ length: 40_000 }, (_, i) => `${(i * seed) % 997} words`).join(' ')
const textOf = (content: string) => ({ bytes: Buffer.from(content), smallest: gzipSync(content).length })

/** Processes that this one has started to compress. */
function compressing(): string[] {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ').filter(Boolean)
  return children.filter((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('compress-child'))
}

test('V17: texts are compressed in their order by one process, whose priority is the lowest and which ends with its owner', async () => {
  await using compressor = openCompressor()
  const texts = [words(7), words(11), 'x'.repeat(2000)]
  const found = await compressor.compress(texts.map(textOf))
  const [pid] = compressing()
  // the 19th field, the 17th behind the name in brackets, is the priority
  expect(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[16]).toBe('19')
  for (const [i, { br, zstd }] of found.slice(0, 2).entries()) {
    expect(brotliDecompressSync(br ?? '').toString()).toBe(texts[i])
    expect(zstdDecompressSync(zstd ?? '').toString()).toBe(texts[i])
  }
  await compressor.compress([textOf(words(13))])
  expect(compressing()).toEqual([pid])
  await compressor[Symbol.asyncDispose]()
  expect(compressing()).toEqual([])
})

test('V17: a variant that saves less than a twentieth is not kept', async () => {
  await using compressor = openCompressor()
  const content = words(7)
  const [all] = await compressor.compress([textOf(content)])
  const [br, zstd] = [all?.br?.length ?? 0, all?.zstd?.length ?? 0]
  const kept = async (smallest: number) =>
    Object.keys((await compressor.compress([{ bytes: Buffer.from(content), smallest }]))[0] ?? {})
  expect(br).toBeLessThan(zstd)
  expect(await kept(Math.ceil(zstd / 0.95))).toEqual(['br', 'zstd'])
  expect(await kept(Math.floor(zstd / 0.95) - 1)).toEqual(['br'])
  expect(await kept(Math.floor(br / 0.95) - 1)).toEqual([])
})

test('V17: an abort ends the process in the middle of a file', async () => {
  const abort = new AbortController()
  await using compressor = openCompressor(abort.signal)
  await compressor.compress([textOf(words(3))])
  const large = { bytes: Buffer.from(words(17).repeat(10)), smallest: 1e9 }
  const running = compressor.compress([large])
  setTimeout(() => abort.abort(new Error('ended')), 20)
  await expect(running).rejects.toThrow('ended')
  await expect.poll(compressing).toEqual([])
})

test('V17: an abort ends the process while it starts, which takes minutes on a machine whose processors are all busy', async () => {
  const abort = new AbortController()
  await using compressor = openCompressor(abort.signal)
  const running = compressor.compress([textOf(words(3))])
  const [pid] = compressing()
  // as if it got no processor
  process.kill(Number(pid), 'SIGSTOP')
  abort.abort(new Error('ended'))
  await expect(running).rejects.toThrow('ended')
  await expect.poll(compressing).toEqual([])
})

test('V17: a process that is killed between two files is started again', async () => {
  await using compressor = openCompressor()
  await compressor.compress([textOf(words(3))])
  for (const pid of compressing()) process.kill(Number(pid), 'SIGKILL')
  await expect.poll(compressing).toEqual([])
  expect(Object.keys((await compressor.compress([textOf(words(5)), textOf(words(7))]))[0] ?? {})).not.toEqual([])
})

test('V17: a file that ends the process has no variants, and those beside it have theirs', async () => {
  await using compressor = openCompressor()
  await compressor.compress([textOf(words(3))])
  const texts = [words(17).repeat(8), words(5)].map(textOf)
  const running = compressor.compress(texts)
  for (const pid of compressing()) process.kill(Number(pid), 'SIGKILL')
  // the second try, with each file alone, is not disturbed
  expect((await running).map((variants) => Object.keys(variants).length > 0)).toEqual([true, true])
})
