import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectIsolation, nodePackage, openBuilder, writes } from '../runner/builder.ts'

let builder: Awaited<ReturnType<typeof openBuilder>>
beforeAll(async () => {
  builder = await openBuilder({ env: { PLINTH_BUILD_MEMORY: '320m', PLINTH_BUILD_TIMEOUT: '5m' } })
  expectIsolation(builder.sandbox.status)
})
afterAll(() => builder?.[Symbol.asyncDispose]())

/** Takes all memory but 16 MiB beside the other processes, and then runs code that has to be read from the disk again and again. */
const standsAtItsLimit = `
const fs = require('node:fs'), zlib = require('node:zlib')
const held = () => fs.readdirSync('/proc').filter(Number).reduce((sum, pid) => {
  try { return sum + 1024 * Number(/^RssAnon:\\s+(\\d+)/m.exec(fs.readFileSync('/proc/' + pid + '/status', 'utf8'))[1]) } catch { return sum }
}, 0)
const taken = []
while (held() < (320 - 16) * 1048576) taken.push(Buffer.alloc(1048576, 1))
console.log('holds its memory')
for (let i = 0; ; i++) { new Intl.NumberFormat('de').format(i); zlib.gzipSync(Buffer.alloc(5000)); new RegExp('a' + i).test('b') }`

test('B06: a build that stands at its memory limit without getting on is ended long before its time, and told the limit', async (context) => {
  // only a cgroup knows
  if (builder.sandbox.status.cgroup === 'none') context.skip()
  const files = nodePackage(standsAtItsLimit)
  const scripts = { build: 'cp "$(node -p process.execPath)" own-node && exec ./own-node build.cjs' }
  const built = await builder.build({
    ...files,
    'package.json': JSON.stringify({ name: 'test', version: '1.0.0', scripts }),
  })
  process.stdout.write(`${built.error.split('\n', 1)[0]} (after ${built.build_seconds} s)\n`)
  expect(built.error).toMatch(
    /^npm run build (?:was stopped because it stood at its memory limit for 10 seconds without getting on|ran out of memory): a build has 320 MB/,
  )
  expect(built.build_seconds).toBeLessThan(150)
})

test('B06: a build that writes and reads more files than its memory holds is left alone', async () => {
  const fillsThePageCache = `${writes('dist/index.html')}
    const until = Date.now() + 30_000
    const files = (work) => { for (let i = 0; i < 5000 && Date.now() < until; i++) work('file' + i) }
    for (let round = 0; Date.now() < until; round++) {
      files((name) => fs.writeFileSync(name, Buffer.alloc(100_000, round)))
      files((name) => fs.existsSync(name) && fs.readFileSync(name))
    }`
  expect(await builder.build(nodePackage(fillsThePageCache))).toMatchObject({ outcome: 'built', paths: ['index.html'] })
})
