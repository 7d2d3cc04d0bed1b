import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { BuildLogs } from '../../infra/build-logs/build-logs.ts'
import { openDiskBuildLogs } from '../../infra/build-logs/disk.ts'
import { createLogger } from '../../infra/log.ts'
import { openBuildLog } from '../../runner/build-log.ts'
import { openReaders, type Readers } from '../../runner/readers.ts'

const MiB = 1024 * 1024
let folder: string
let logs: BuildLogs
let readers: Readers
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'plinth-build-log-'))
  logs = openDiskBuildLogs(folder)
  readers = openReaders()
})
afterAll(async () => {
  await readers[Symbol.asyncDispose]()
  await rm(folder, { recursive: true })
})

async function openLog({ deployId = randomUUID(), secrets = [] as string[], to = logs, from = readers } = {}) {
  const reader = await from.take(new AbortController().signal)
  onTestFinished(() => reader[Symbol.asyncDispose]())
  const log = await openBuildLog({ logs: to, log: createLogger('test', 'silent'), deployId, reader, secrets })
  const read = async () => (await to.read(deployId, 0, 64 * MiB)).bytes.toString('utf8')
  return { deployId, log, reader, read, append: (text: string) => log.append(Buffer.from(text)) }
}

test('J04: keeps the first nine MiB and the last one, and says how much it left out', async () => {
  const { log, read } = await openLog()
  log.line('first')
  const chunk = Buffer.from(`${'x'.repeat(1023)}\n`.repeat(8))
  for (let i = 0; i < 5 * 1024; i++) log.append(chunk)
  log.line('last')
  await log.close()
  const text = await read()
  expect(text.length).toBeGreaterThan(9.9 * MiB)
  expect(text.length).toBeLessThan(10 * MiB + 64 * 1024 + 100)
  expect(text.startsWith('first\n')).toBe(true)
  expect(text.endsWith('\nlast\n')).toBe(true)
  const leftOut = Number(/\n… (\d+) bytes left out …\n/.exec(text)?.[1])
  const gap = Buffer.byteLength(`… ${leftOut} bytes left out …\n`)
  expect(Buffer.byteLength(text) - gap + leftOut).toBe('first\nlast\n'.length + 40 * MiB)
})

test('J04: loses nothing below ten MiB, wherever the chunks are cut', async () => {
  const { log, read } = await openLog()
  let expected = ''
  for (let i = 0; i < 400; i++) expected += `${i}:${'ÿ€'.repeat(i * 12)}\n`
  expected = expected.repeat(2)
  const bytes = Buffer.from(expected)
  expect(bytes.length).toBeGreaterThan(9 * MiB)
  expect(bytes.length).toBeLessThan(10 * MiB)
  for (let at = 0, step = 1; at < bytes.length; at += step, step = (step * 7) % 100_003) log.append(bytes.subarray(at, at + step))
  await log.close()
  expect((await read()) === expected).toBe(true)
})

test.each([
  ['colours', '\u001b[31mred\u001b[0m\n', 'red\n'],
  ['a rewritten line', '10 %\r50 %\r100 %\n', '100 %\n'],
  ['lines of Windows', 'a\r\nb\r\n', 'a\nb\n'],
  ['NUL and bells', 'a\u0000b\u0007c\td\n', 'abc\td\n'],
  ['a link', '\u001b]8;;https://a.test\u0007text\u001b]8;;\u0007\n', 'text\n'],
  ['an open end', 'no newline', 'no newline\n'],
  ['half a character', Buffer.from([0x61, 0xe2, 0x82]), 'a\ufffd\n'],
  ['a secret', 'token=ghp_0123456789abcdefghijABCDEFGHIJ012345 ok\n', 'token=[masked] ok\n'],
  ['a value that was named', 'pushed with s3cret!\n', 'pushed with [masked]\n'],
  [
    'a private key over lines',
    'key:\n-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7\nq83Zw==\n-----END RSA PRIVATE KEY-----\nafter\n',
    'key:\n[masked]\nafter\n',
  ],
])('J04: the text has no %s', async (_name, written, text) => {
  const whole = await openLog({ secrets: ['s3cret!'] })
  whole.log.append(Buffer.from(written))
  await whole.log.close()
  expect(await whole.read()).toBe(text)
  const bytes = await openLog({ secrets: ['s3cret!'] })
  for (const byte of Buffer.from(written)) bytes.log.append(Buffer.from([byte]))
  await bytes.log.close()
  expect(await bytes.read()).toBe(text)
})

test('J04: lines arrive while the build runs, a line without an end a second later, and neither is repeated', async () => {
  const { log, read, append } = await openLog()
  append('first\nwaiting')
  await expect.poll(read, { interval: 20 }).toBe('first\n')
  await expect.poll(read, { interval: 20 }).toBe('first\nwaiting')
  append(' for it\n10 %')
  await expect.poll(read, { interval: 20 }).toBe('first\nwaiting for it\n10 %')
  append('\r50 %\r100 %\n')
  log.line('of the runner')
  await log.close()
  expect(await read()).toBe('first\nwaiting for it\n10 %\n100 %\nof the runner\n')
})

test('J04: a long line that is handed on in parts keeps its text and hides its secrets', async () => {
  const { log, read, append } = await openLog()
  const words = 'word '.repeat(13_000)
  const secret = `ghp_${'a1B2'.repeat(9)}`
  append(`${words}${words}`.slice(0, 64 * 1024 - 20))
  append(` ${secret} ${words}\n`)
  await log.close()
  expect(await read()).toBe(`${`${words}${words}`.slice(0, 64 * 1024 - 20)} [masked] ${words}\n`)
})

test('B06: failures are explained from the end, also of what is not written yet', async () => {
  const { log, append } = await openLog()
  append('one\ntwo \u001b[31mnpm_0123456789abcdefghijABCDEFGHIJ012345')
  expect(await log.recent()).toBe('one\ntwo [masked]')
  append(`\n${'x'.repeat(999)}\n`.repeat(12 * 1024))
  append('the reason')
  const recent = await log.recent()
  expect(recent).toMatch(/\nx{999}\nthe reason$/)
  expect(recent.length).toBe(64 * 1024)
  await log.close()
})

test('B05: a build that is repeated continues the log and says so', async () => {
  const first = await openLog()
  first.log.line('a')
  await first.log.close()
  await logs.append(first.deployId, Buffer.from('half a li'))
  const second = await openLog({ deployId: first.deployId })
  second.log.line('b')
  await second.log.close()
  expect(await second.read()).toBe('a\nhalf a li\n… the build was interrupted and starts again …\nb\n')
})

test('B05: a log that cannot be written fails no build, and is whole when it can be written again', async () => {
  const place = join(folder, 'place')
  await writeFile(place, 'a file where the folder of the logs should be')
  const disk = openDiskBuildLogs(place)
  let tries = 0
  const to: BuildLogs = {
    ...disk,
    append(id, bytes) {
      tries += 1
      return disk.append(id, bytes)
    },
  }
  const { log, read, append } = await openLog({ to })
  append('a\n')
  log.line('b')
  await expect.poll(() => tries).toBe(1)
  await rm(place)
  append('c\n')
  await log.close()
  expect(await read()).toBe('a\nb\nc\n')
})

test.each([
  ['one line', 'a'],
  ['half a sequence', '\u001b[1;'],
  ['parameters', ';12'],
  ['carriage returns', '\r'],
  ['carriage returns and text', '\r x'],
  ['addresses', '://a:b'],
  ['the beginnings of tokens', 'eyJeyJ.'],
])('B05: ten MiB of %s are made readable within seconds, and elsewhere', async (_name, unit) => {
  const { log, reader, append } = await openLog()
  const text = `\u001b[${unit.repeat((10 * MiB) / unit.length)}x`
  const whole = process.cpuUsage()
  const own = process.threadCpuUsage()
  append(text)
  await log.close()
  expect(process.cpuUsage(whole).user / 1000).toBeLessThan(8000)
  expect(process.threadCpuUsage(own).user / 1000).toBeLessThan(1000)
  expect(reader.stopped.aborted).toBe(false)
})

test('1: a log that takes the reader too long goes on with the lines of the runner', async () => {
  await using hasty = openReaders({ deadlineMs: 15 })
  const { log, reader, read, append } = await openLog({ from: hasty })
  append('first\n')
  await expect.poll(read).toBe('first\n')
  // lines that may hold a token: 50 ms for a chunk of 64 KiB, or half as long on a quick machine
  append('eyJ\n'.repeat(MiB / 4))
  await expect.poll(() => reader.stopped.aborted).toBe(true)
  const message = 'reading the output of the build took more than 0.015 seconds of processor time'
  expect(reader.stopped.reason).toHaveProperty('message', expect.stringContaining(message))
  append('never read')
  log.line('failed: token=ghp_0123456789abcdefghijABCDEFGHIJ012345')
  await log.close()
  // what was read of the token lines before the deadline stays
  expect(await read()).toMatch(/^first\n(?:eyJ\n)*failed: token=\[masked\]\n$/)
})
