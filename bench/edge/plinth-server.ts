import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliCompressSync } from 'node:zlib'
import { mayHaveBackgroundVariants } from '../../core/encodings.ts'
import { openContent } from '../../edge/content.ts'
import { edgeLimits } from '../../edge/edge.ts'
import { createHandler } from '../../edge/handler.ts'
import { openRouteTable } from '../../edge/routes.ts'
import { openTraffic } from '../../edge/traffic/traffic.ts'
import { openDiskCas } from '../../infra/cas/disk.ts'
import { storeManifest } from '../../infra/cas/manifests.ts'
import { readSiteRules } from '../../infra/cas/site-rules.ts'
import { createVisits } from '../../infra/crypto/visits.ts'
import { openServer } from '../../infra/listen.ts'
import { createLogger } from '../../infra/log.ts'
import { noTerms } from '../../services/feeds/locks.ts'
import { benchKey } from './key.ts'

// The edge with one site, `bench.plinth.test`, that has the files of a folder. Listens on a unix socket and on a port, which it prints.
//   node bench/edge/plinth-server.ts <folder> <socket> [<storage> [<epoch of the lock>] [<database> <site id>]]
// The folder may have a `_redirects`. Behind a Caddy, the storage is the one that it knows. With an epoch, the site is closed with a password. With a database, requests are counted there.

const [, , folder = '', socket = '', storage = '', epoch = '', databaseUrl = '', site_id = 'bench'] = process.argv
const platformDomain = 'plinth.test'

await using opened = new AsyncDisposableStack()
const dir = await mkdtemp(join(tmpdir(), 'plinth-bench-'))
opened.defer(() => rm(dir, { recursive: true }))
const cas = await openDiskCas(storage || join(dir, 'cas'))
const found = await readdir(folder, { recursive: true, withFileTypes: true })
const paths = found.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
const files = paths.map(async (path) => ({ path: path.slice(folder.length + 1), ...(await cas.put(await readFile(path))) }))
const entries = await Promise.all(files)
for (const { path, sha256, size } of entries) {
  if (!path.endsWith('.js') || !mayHaveBackgroundVariants(size)) continue
  await cas.putVariant(sha256, 'br', brotliCompressSync(await readFile(join(folder, path))))
}
const { rules } = await readSiteRules(cas, entries)
const manifest_sha256 = await storeManifest({ add: cas.put }, entries, rules)
const log = createLogger('bench', 'info')
const snapshotDir = join(dir, 'routes')
const routes = opened.use(await openRouteTable({ platformDomain, snapshotDir, log: createLogger('bench', 'silent') }))
const state = {
  enabled: true,
  suspended: false,
  trashed: false,
  canonical_urls: false,
  retained_sha256: null,
  compressed: true,
  version: 1,
}
const site = { site_id, subdomain: 'bench', ...state, deploy_id: 'bench', manifest_sha256 }
const nothing = { previews: [], permanent: [], former: [], domains: [], delivery_files: [], delivery_page: null }
const without = {
  expires_at: null,
  bypass_sha256: null,
  previews_closed: false,
  generations: [],
  consent_version: 0,
  terms: noTerms,
  brand: null,
}
const lock = epoch === '' ? null : ({ mode: 'password', epoch, ...without } as const)
routes.apply([{ ...site, ...nothing, lock }], [])
const confirm = () => routes.setConnected(true)
confirm()
opened.adopt(setInterval(confirm, 5000), clearInterval)
const urls = { baseUrl: 'http://base.test', previewUrl: 'http://preview.test' }
const counting = { dir: join(dir, 'traffic'), databaseUrl, secretKey: benchKey, log }
const traffic = databaseUrl === '' ? undefined : opened.use(openTraffic(counting))
const visits = createVisits(benchKey)
const options = { platformDomain, ...urls, routes, content: openContent(cas), visits, traffic, log }
opened.use(await openServer(createHandler({ ...options, caddySends: true }), { path: socket }, edgeLimits))
const { port } = opened.use(await openServer(createHandler(options), { port: 0 }, edgeLimits))
process.stdout.write(`${port}\n`)
await once(process, 'SIGTERM')
