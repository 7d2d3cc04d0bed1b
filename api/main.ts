import { loadConfig } from '../infra/config.ts'
import { holdRequests, openServer } from '../infra/listen.ts'
import { runMain } from '../infra/process.ts'

/** The time in which a 50 MB upload has to arrive. */
const uploadTimeoutMs = 600_000

await runMain('api', async () => {
  const config = loadConfig()
  const held = holdRequests()
  const server = await openServer(held.listener, { path: config.sockets.api }, { requestTimeoutMs: uploadTimeoutMs })
  // loading the rest takes 2 s of processor time, and on a busy machine longer than the 15 s for which Caddy tries to connect; requests wait here
  const { openApi } = await import('./open.ts')
  const api = await openApi(config)
  held.passTo(api.listener)
  return {
    async [Symbol.asyncDispose]() {
      await using _api = api
      api.drain()
      await server[Symbol.asyncDispose]()
    },
  }
})
