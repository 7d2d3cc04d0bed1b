import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Cas } from '../../infra/cas/cas.ts'
import { openTestEdge, storeFiles, type TestEdge } from './test-edge.ts'

const old = 'assets/app-D1wrgTda.js'
const live = 'assets/app-E2xshUeb.js'

let edge: TestEdge
let retained_sha256: string
const opened: string[] = []
let away: string | undefined
const watched = (cas: Cas): Cas => ({
  ...cas,
  open(sha256, encoding) {
    opened.push(sha256)
    return sha256 === away ? Promise.reject(new Error('the storage does not answer')) : cas.open(sha256, encoding)
  },
})
beforeAll(async () => {
  edge = await openTestEdge({ wrap: watched })
  retained_sha256 = await storeFiles(edge.cas, { [old]: 'old script', [live]: 'never seen' })
})
afterAll(() => edge[Symbol.asyncDispose]())

const publish = (name: string, files: Record<string, string>) =>
  edge.publish(name, { 'index.html': 'home', [live]: 'live script', ...files }, { retained_sha256 })
const ask = async (name: string, path: string, method = 'GET', headers: Record<string, string> = {}) => {
  const answer = await edge.ask(path, { host: `${name}.plinth.test`, method, headers })
  return { ...answer, text: answer.body.toString() }
}

describe('E34: a site with retained assets', () => {
  test('answers at their paths as for files of its own, with ranges, conditions and HEAD', async () => {
    await publish('plain', {})
    const whole = await ask('plain', `/${old}`)
    expect([whole.status, whole.text, whole.headers['cache-control']]).toEqual([200, 'old script', 'max-age=31536000, immutable'])
    const part = await ask('plain', `/${old}`, 'GET', { range: 'bytes=0-2' })
    expect([part.status, part.text]).toEqual([206, 'old'])
    expect((await ask('plain', `/${old}`, 'GET', { 'if-none-match': String(whole.headers.etag) })).status).toBe(304)
    expect([(await ask('plain', `/${old}`, 'HEAD')).status, (await ask('plain', `/${old}/`)).text]).toEqual([200, 'home'])
  })

  test('answers with a live file at the same path, and everything else as before', async () => {
    await publish('own', { '404.html': 'own page' })
    expect((await ask('own', `/${live}`)).text).toBe('live script')
    const missing = await ask('own', '/assets/none-D1wrgTda.js')
    expect([missing.status, missing.text]).toEqual([404, 'own page'])
    expect((await ask('own', `/__svc/${old}`)).status).toBe(404)
  })

  test('reads them only for a path with an extension that it has no file for', async () => {
    const unread = await storeFiles(edge.cas, { [old]: 'not read yet' })
    const files = { 'index.html': 'home', 'about.html': 'about', [live]: 'live script' }
    await edge.publish('lazy', files, { retained_sha256: unread })
    opened.length = 0
    for (const path of ['/', '/about', `/${live}`, '/deep/route']) await ask('lazy', path)
    expect(opened).not.toContain(unread)
    await ask('lazy', '/missing.js')
    expect(opened).toContain(unread)
  })

  test('cannot say what is missing while they cannot be read; its own files answer', async () => {
    const other = await storeFiles(edge.cas, { [old]: 'another' })
    await edge.publish('away', { 'index.html': 'home', [live]: 'live script' }, { retained_sha256: other })
    away = other
    expect((await ask('away', `/${old}`)).status).toBe(503)
    expect([(await ask('away', '/')).status, (await ask('away', `/${live}`)).status]).toEqual([200, 200])
    away = undefined
    expect((await ask('away', `/${old}`)).text).toBe('another')
  })
})
