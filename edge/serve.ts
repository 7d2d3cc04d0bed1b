import { decide, hasExtension } from '../core/serving.ts'
import { type Answered, whenRead } from './answered.ts'
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

/** Answers with the files of a deploy by the serving rules. @throws as {@link sendFile} */
export function serveDeploy(exchange: Exchange, content: Content, wanted: Wanted): Answered {
  return whenRead(content.files(wanted.manifest_sha256), (files) =>
    whenRead(findRetained(content, wanted, files), (retained) => serveFrom(exchange, content, wanted, files, retained)),
  )
}

function serveFrom(
  exchange: Exchange,
  content: Content,
  { path, query, prefix, canonical_urls: canonical }: Wanted,
  files: SiteFiles,
  retained: SiteFile | undefined,
): Answered {
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
      return sendFile(exchange, content, file, decision.status)
    }
  }
}

/** The retained asset at the wanted path, which answers like a file of the deploy. A file that the deploy has costs no second look-up. */
function findRetained(content: Content, { retained_sha256, path }: Wanted, live: SiteFiles) {
  const wanted = path.slice(1)
  if (retained_sha256 === null || !hasExtension(wanted) || live.has(wanted)) return undefined
  return whenRead(content.files(retained_sha256), (retained) => {
    if (!retained.has(wanted)) return undefined
    const asset = retained.get(wanted, path)
    // the headers of the live deploy, such as those that let other origins load its scripts
    return live.rules?.headersFor ? withHeaders(asset, live.rules.headersFor(path)) : asset
  })
}
