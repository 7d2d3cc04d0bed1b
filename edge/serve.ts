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
}

/** Answers with the files of a deploy by the serving rules. */
export async function serveDeploy(exchange: Exchange, content: Content, wanted: Wanted): Promise<void> {
  const files = content.cachedFiles(wanted.manifest_sha256) ?? (await content.loadFiles(wanted.manifest_sha256))
  const decision = decide(wanted.path, (path) => files.has(path), { query: wanted.query })
  switch (decision.kind) {
    case 'redirect':
      return sendRedirect(exchange, decision.status, wanted.prefix + decision.location)
    case 'missing':
      return sendPage(exchange, pages.missingFile)
    case 'file':
      return await sendFile(exchange, content, files.get(decision.path), decision.status)
  }
}
