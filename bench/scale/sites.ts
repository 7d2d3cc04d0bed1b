import { createHash } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { openRouteTable } from '../../edge/routes.ts'
import { pathIn, suffix } from '../../infra/cas/disk-layout.ts'
import { inParallel } from '../../infra/cas/files.ts'
import { storeManifest } from '../../infra/cas/manifests.ts'
import type { Config } from '../../infra/config.ts'
import { createLogger } from '../../infra/log.ts'
import type { Route } from '../../services/feeds/routes.ts'

/** One request of a visitor. */
export interface Visit {
  readonly site: number
  readonly file: number
}

export interface Sites {
  readonly sites: number
  readonly files: number
}

const fileBytes = 4096
const quick = { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }

export const subdomainOf = (site: number) => `site-${site}`

/** Half of the files are pages, half are hashed assets. */
export const pathOf = (file: number) =>
  file === 0
    ? 'index.html'
    : file % 2 === 0
      ? `docs/section-${file % 7}/page-${file}/index.html`
      : `assets/chunk-${file}-${hashOf(`${file}`).slice(0, 8)}.js`

const hashOf = (content: string | Buffer) => createHash('sha256').update(content).digest('hex')

/** 4 KiB of text that no other file has and that gzip makes about half as long. */
function contentOf({ site, file }: Visit): Buffer {
  const lines = Array.from({ length: 52 }, (_, line) => `<p>The code of line ${line} is ${hashOf(`${site}/${file}/${line}`)}.\n`)
  return Buffer.from(lines.join('').padEnd(fileBytes, ' ').slice(0, fileBytes))
}

/**
 * Writes manifests of all sites, the snapshot of their routes, and of their files those that will be visited: the edge never looks at the
 * others. Nothing is flushed one by one, as a deploy would, because two million files would take hours.
 */
export async function makeSites(config: Config, { sites, files }: Sites, visits: Iterable<Visit>): Promise<void> {
  const cas = fileURLToPath(config.storage.url)
  const write = async (sha256: string, bytes: Buffer, ending = '') => {
    const path = pathIn(cas, sha256) + ending
    await writeFile(path, bytes, { mode: 0o444 })
  }
  for (let i = 0; i < 256; i++) await mkdir(join(cas, 'objects', i.toString(16).padStart(2, '0')), { recursive: true })
  const visited = new Map<number, Set<number>>()
  for (const { site, file } of visits) visited.set(site, (visited.get(site) ?? new Set()).add(file))

  const routes: Route[] = []
  await inParallel(8, Array(sites).keys(), async (site) => {
    const entries = []
    for (let file = 0; file < files; file++) {
      const isVisited = visited.get(site)?.has(file) ?? false
      const content = isVisited ? contentOf({ site, file }) : undefined
      const sha256 = hashOf(content ?? `${site}/${file}`)
      entries.push({ path: pathOf(file), sha256, size: fileBytes })
      if (!content) continue
      await write(sha256, content)
      await write(sha256, gzipSync(content, { level: 1 }), suffix.gzip)
      await write(sha256, brotliCompressSync(content, quick), suffix.br)
    }
    const add = async (bytes: unknown) => {
      const manifest = bytes as Buffer
      const sha256 = hashOf(manifest)
      await write(sha256, manifest)
      return { sha256, size: manifest.length }
    }
    routes.push(routeOf(site, await storeManifest({ add }, entries)))
  })
  await using table = await openRouteTable({
    platformDomain: config.urls.platformDomain,
    snapshotDir: join(config.dataDir, 'edge'),
    log: createLogger('bench', 'silent'),
  })
  table.setConnected(true)
  table.apply(routes, [])
}

function routeOf(site: number, manifest_sha256: string): Route {
  const number = String(site).padStart(12, '0')
  return {
    site_id: `01890000-0000-7000-8000-${number}`,
    subdomain: subdomainOf(site),
    enabled: true,
    suspended: false,
    trashed: false,
    canonical_urls: false,
    compressed: true,
    version: 1,
    deploy_id: `01890000-0000-7000-8001-${number}`,
    manifest_sha256,
    retained_sha256: null,
    previews: [],
    permanent: [],
    former: [],
    domains: [],
    delivery_files: [],
    delivery_page: null,
    lock: null,
  }
}
