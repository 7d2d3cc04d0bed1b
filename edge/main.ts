import { join } from 'node:path'
import { platformHosts } from '../infra/acme/platform-names.ts'
import { openCas } from '../infra/cas/open.ts'
import { loadConfig, required } from '../infra/config.ts'
import { createLogger } from '../infra/log.ts'
import { runMain } from '../infra/process.ts'
import { openEdge } from './edge.ts'

await runMain('edge', async () => {
  const config = loadConfig()
  const log = createLogger('edge', config.logLevel)
  const edge = await openEdge({
    platformDomain: config.urls.platformDomain,
    baseUrl: config.urls.base,
    previewUrl: config.urls.preview,
    databaseUrl: required(config.database.url, 'PLINTH_DATABASE_URL'),
    cas: await openCas(config.storage.url),
    snapshotDir: join(config.dataDir, 'edge'),
    trafficDir: join(config.dataDir, 'edge', 'traffic'),
    listen: { path: config.sockets.edge },
    caddySends: true,
    certificates: {
      secretKey: required(config.secretKey, 'PLINTH_SECRET_KEY'),
      listen: { port: required(config.acme.certificatesPort, 'PLINTH_CERTIFICATES_PORT') },
      isPlatformHost: platformHosts(config),
      isLocalAuthority: config.acme.directory === undefined,
    },
    log,
  })
  log.info({ socket: config.sockets.edge }, 'edge started')
  return edge
})
