import { decide, hasExtension } from '../core/serving.ts'
import type { Content } from './content.ts'
import { pages } from './pages.ts'
import { type Exchange, sendFile, sendPage, sendRedirect } from './respond.ts'
import type { SiteFile, SiteFiles } from './site-files.ts'
import { withHeaders } from './site-headers.ts'

export interface Wanted {
  readonly manifest_sha256: string
  /** The manifest of retained assets; null when there are none. */
  readonly retained_sha256: string | null
  /** The path as the parameter of `decide`. */
  readonly path: string
  readonly query: string
  /** The prefix of the visitor's paths before those of the deploy. */
  readonly prefix: string
  readonly canonical_urls: boolean
}

/** Answers with the files of a deploy by the serving rules. */
export async function serveDeploy(exchange: Exchange, content: Content, wanted: Wanted): Promise<void> {
  const files = content.cachedFiles(wanted.manifest_sha256) ?? (await content.loadFiles(wanted.manifest_sha256))
  const { path, query, prefix, canonical_urls: canonical } = wanted
  const retained = await findRetained(content, wanted, files)
  const has = (file: string) => files.has(file) || file === retained?.path
  const decision = decide(path, has, { query, rules: files.rules, canonical })
  switch (decision.kind) {
    case 'redirect':
      // a target on another host has no prefix
      return sendRedirect(exchange, decision.status, (decision.location.startsWith('/') ? prefix : '') + decision.location)
    case 'missing':
      return sendPage(exchange, pages.missingFile)
    case 'file': {
      const isRetained = retained?.path === decision.path
      const file = isRetained ? retained : files.get(decision.path, path, exchange.overlay?.reserved)
      return await sendFile(exchange, content, file, decision.status)
    }
  }
}

/** The retained asset at the wanted path, which answers like a file of the deploy. A file that the deploy has costs no second look-up. */
async function findRetained(content: Content, { retained_sha256, path }: Wanted, live: SiteFiles): Promise<SiteFile | undefined> {
  const wanted = path.slice(1)
  if (retained_sha256 === null || !hasExtension(wanted) || live.has(wanted)) return undefined
  const retained = content.cachedFiles(retained_sha256) ?? (await content.loadFiles(retained_sha256))
  if (!retained.has(wanted)) return undefined
  const asset = retained.get(wanted, path)
  // the headers of the live deploy, such as those that let other origins load its scripts
  return live.rules?.headersFor ? withHeaders(asset, live.rules.headersFor(path)) : asset
}
