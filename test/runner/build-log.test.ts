import { expect, test } from 'vitest'
import { createBuildLog } from '../../runner/build-log.ts'

const MiB = 1024 * 1024

test('keeps the first MiB and the last nine, and says how much it left out', () => {
  const log = createBuildLog()
  log.line('first')
  const chunk = Buffer.from(`${'x'.repeat(1023)}\n`)
  for (let i = 0; i < 40 * 1024; i++) log.append(chunk)
  log.line('last')
  expect(log.size()).toBe(40 * MiB + 11)
  const text = log.text()
  expect(text.length).toBeLessThan(10 * MiB + 100)
  expect(text.startsWith('first\n')).toBe(true)
  expect(text.endsWith('\nlast\n')).toBe(true)
  expect(text).toMatch(/\n… \d+ bytes left out …\n/)
})

test('loses nothing below ten MiB, wherever the chunks are cut', () => {
  const log = createBuildLog()
  let expected = ''
  for (let i = 0; i < 300; i++) {
    const line = `${i}:${'y'.repeat(i * 100)}\n`
    expected += line
    log.append(Buffer.from(line))
  }
  expect(log.text()).toBe(expected)
})

test.each([
  ['colours', '\u001b[31mred\u001b[0m\n', 'red\n'],
  ['a rewritten line', '10 %\r50 %\r100 %\n', '100 %\n'],
  ['lines of Windows', 'a\r\nb\r\n', 'a\nb\n'],
  ['NUL and bells', 'a\u0000b\u0007c\td\n', 'abc\td\n'],
  ['a link', '\u001b]8;;https://a.test\u0007text\u001b]8;;\u0007\n', 'text\n'],
])('the text has no %s', (_name, written, text) => {
  const log = createBuildLog()
  log.append(Buffer.from(written))
  expect(log.text()).toBe(text)
})

test.each([
  ['one line', 'a'],
  ['half a sequence', '\u001b[1;'],
  ['parameters', ';12'],
  ['carriage returns', '\r'],
  ['carriage returns and text', '\r x'],
])('ten MiB of %s are made readable within seconds', (_name, unit) => {
  const log = createBuildLog()
  log.append(Buffer.from(`\u001b[${unit.repeat((10 * MiB) / unit.length)}x`))
  const began = performance.now()
  log.text()
  expect(performance.now() - began).toBeLessThan(5000)
})
