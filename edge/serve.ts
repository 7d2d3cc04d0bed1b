import { decide } from '../core/serving.ts'
import type { Content } from './content.ts'
import { pages } from './pages.ts'
import { type Exchange, sendFile, sendPage, sendRedirect } from './respond.ts'

export interface Wanted {
  readonly manifest_sha256: string
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
  const decision = decide(path, (file) => files.has(file), { query, rules: files.rules, canonical })
  switch (decision.kind) {
    case 'redirect':
      // a target on another host has no prefix
      return sendRedirect(exchange, decision.status, (decision.location.startsWith('/') ? prefix : '') + decision.location)
    case 'missing':
      return sendPage(exchange, pages.missingFile)
    case 'file': {
      const file = files.get(decision.path, path, exchange.overlay?.reserved)
      return await sendFile(exchange, content, file, decision.status)
    }
  }
}
