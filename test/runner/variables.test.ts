import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectIsolation, nodeBuild, openBuilder } from './builder.ts'

let builder: Awaited<ReturnType<typeof openBuilder>>
beforeAll(async () => {
  builder = await openBuilder()
  expectIsolation(builder.sandbox.status)
})
afterAll(() => builder[Symbol.asyncDispose]())

const site = "require('node:fs').mkdirSync('dist'); require('node:fs').writeFileSync('dist/index.html', 'x');"

test('E30: as many and as large variables as a site may have reach the build, unchanged and masked', async () => {
  // quotes and marks are the longest in other forms
  const large = ['"%é\\'.repeat(32 * 205), "{'}é".repeat(32 * 200)]
  const small = Object.fromEntries(Array.from({ length: 98 }, (_, at) => [`${'V'.repeat(125)}${at}`, `a=b\n ${at}`]))
  const values = { ...small, LARGE_0: large[0] ?? '', LARGE_1: large[1] ?? '' }
  const program = `${site}
    const { createHash } = require('node:crypto')
    const own = Object.entries(process.env).filter(([name]) => /^(V{125}|LARGE_)/.test(name)).sort()
    console.log('hash', createHash('sha256').update(JSON.stringify(own)).digest('hex'), own.length)
    console.log('packed', process.env.PLINTH_PACKED)
    console.log('large', process.env.LARGE_0)`
  const built = await builder.build(nodeBuild(program), { variables: { values, secrets: large } })
  expect(built.error).toBe('')
  const { createHash } = await import('node:crypto')
  const hash = createHash('sha256')
    .update(JSON.stringify(Object.entries(values).sort()))
    .digest('hex')
  expect(built.log).toContain(`hash ${hash} 100\n`)
  expect(built.log).toContain('packed undefined\n')
  expect(built.log).toContain('large [masked]\n')
})

test('variables are set for the commands of the build, not for the program that starts them', async () => {
  const program = `${site}
    const { readdirSync, readFileSync } = require('node:fs')
    const read = (pid, file) => { try { return readFileSync('/proc/' + pid + '/' + file, 'utf8') } catch { return '' } }
    const relay = readdirSync('/proc').find((pid) => read(pid, 'cmdline').includes('relay.mjs\\0'))
    console.log('own', process.env.NODE_COMPILE_CACHE)
    console.log('relay', relay !== undefined, read(relay, 'environ').includes('NODE_COMPILE_CACHE'))`
  const variables = { values: { NODE_COMPILE_CACHE: '/build/cache' }, secrets: [] }
  const built = await builder.build(nodeBuild(program), { variables })
  expect(built.error).toBe('')
  expect(built.log).toContain('own /build/cache\nrelay true false\n')
})

test('E30: a variable that cannot be read fails what is built, and nothing else', async () => {
  const variables = { refused: 'the variable TOKEN cannot be read' }
  expect((await builder.build(nodeBuild(site), { variables })).error).toBe('the variable TOKEN cannot be read')
  expect((await builder.build({ 'index.html': 'x' }, { variables })).error).toBe('')
})
