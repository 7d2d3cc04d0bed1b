import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { noSettings } from '../../core/build-settings.ts'
import { loadConfig } from '../../infra/config.ts'
import { createVariablesReader } from '../../runner/variables.ts'

const build = {
  deploy_id: 'd',
  run: { attempt: 2, run_id: 'r/1' },
  project_id: 'p',
  site_id: 's',
  source_sha256: '',
  storage_bytes: null,
  plan_title: 'Free',
  settings: noSettings(),
  trust: 'production' as const,
}
const config = loadConfig({ PLINTH_DATA_DIR: join(tmpdir(), 'plinth-no-api') })

async function read(answer: RequestListener, signal = new AbortController().signal) {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    return await createVariablesReader(config, { url, token: 'the-token' })(build, signal)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

test('E30: the run of the build and the token are sent, and the variables come back', async () => {
  const variables = { values: { A: 'b' }, secrets: ['b'] }
  const asked: unknown[] = []
  const found = await read(({ url, headers }, response) => {
    asked.push([url, headers.authorization])
    response.end(JSON.stringify(variables))
  })
  expect(found).toEqual(variables)
  expect(asked).toEqual([['/internal/builds/d/variables?attempt=2&run_id=r%2F1', 'Bearer the-token']])
})

test('an api that starts again, is busy or hangs up is waited for', async () => {
  const statuses = [503, 429, 0, 200]
  const found = await read((_request, response) => {
    const status = statuses.shift() ?? 0
    if (status === 0) response.destroy()
    else response.writeHead(status).end('{"values":{},"secrets":[]}')
  })
  expect(found).toEqual({ values: {}, secrets: [] })
})

test.each([
  [401, 'the api does not accept PLINTH_RUNNER_TOKEN'],
  [404, 'the api does not know this build any more (status 404)'],
])('an answer of %i is a fault of the platform', async (status, message) => {
  await expect(read((_request, response) => response.writeHead(status).end('{"message":"x"}'))).rejects.toThrow(message)
})

test('a refusal is a text for the owner of the site', async () => {
  const answer: RequestListener = (_request, response) => response.writeHead(409).end('{"message":"set TOKEN again"}')
  expect(await read(answer)).toEqual({ refused: 'set TOKEN again' })
})

test('a cancelled build does not wait for the api', async () => {
  const stop = new AbortController()
  const waiting = read(() => stop.abort(new Error('cancelled')), stop.signal)
  await expect(waiting).rejects.toThrow('cancelled')
})
