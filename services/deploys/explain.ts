import { unavailable } from '../../core/errors.ts'
import { explainDecision } from '../../core/explain-decision.ts'
import type { RequestTarget } from '../../core/request-path.ts'
import { decide } from '../../core/serving.ts'
import type { AppliedHeader } from '../../core/site-rules/merge-headers.ts'
import type { RuleFile } from '../../core/site-rules/rules.ts'
import { findEntry, readStoredManifest, rulesOf } from '../../infra/cas/manifests.ts'
import { readRuleFile } from '../../infra/cas/site-rules.ts'
import type { Services } from '../services.ts'

/** How the edge answers a request, and why. */
export interface PathExplanation {
  readonly status: number
  /** Null unless it redirects. */
  readonly location: string | null
  /** The path of the file that answers; null for none. */
  readonly file: string | null
  /** The headers that `_headers` sets. */
  readonly headers: AppliedHeader[]
  /** The line that decides; null when no rule of the site does. */
  readonly rule: { readonly file: RuleFile; readonly line: number; readonly text: string } | null
  readonly explanation: string
}

/**
 * Explains what the deploy with this manifest answers, by the function that the edge decides with. The state of the site does not matter.
 * @throws AppError `unavailable` when the storage does not answer
 */
export async function explainPath(
  { cas, log }: Services,
  manifestSha256: string,
  { path, query }: RequestTarget,
  canonical: boolean,
): Promise<PathExplanation> {
  try {
    const manifest = await readStoredManifest(cas, manifestSha256)
    const find = (file: string) => findEntry(manifest.files, file)
    const rules = rulesOf(manifest)
    const decision = decide(path, (file) => find(file) !== undefined, { query, rules, canonical })
    const explanation = explainDecision(path, decision)
    const rule = decision.rule ? { ...decision.rule, text: await textOf(decision.rule) } : null
    const none = { location: null, file: null, headers: [], rule, explanation }
    if (decision.kind === 'redirect') return { ...none, status: decision.status, location: decision.location }
    if (decision.kind === 'missing') return { ...none, status: 404 }
    const headers = [...(rules?.headersFor?.(path) ?? [])]
    return { ...none, status: decision.status, file: decision.path, headers }

    async function textOf({ file, line }: { readonly file: RuleFile; readonly line: number }): Promise<string> {
      const entry = find(file)
      return entry ? ((await readRuleFile(cas, entry)).split('\n')[line - 1]?.trim() ?? '') : ''
    }
  } catch (error) {
    log.error({ err: error, sha256: manifestSha256 }, 'path not explained')
    throw unavailable('the storage does not answer; try again in a few seconds')
  }
}
