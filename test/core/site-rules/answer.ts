import { parseRequestPath } from '../../../core/request-path.ts'
import { type DecideOptions, type Decision, decide } from '../../../core/serving.ts'
import { compileRules } from '../../../core/site-rules/compile.ts'
import { type PreparedRules, prepareRules } from '../../../core/site-rules/prepare.ts'

/** The rules of texts as the edge has them: stored as JSON in between. */
export function rulesOf(redirects: string, headers = ''): PreparedRules {
  const { rules } = compileRules({ redirects, headers })
  return prepareRules(JSON.parse(JSON.stringify(rules ?? { redirects: [], headers: [] })))
}

/** What a request target is answered with: `301 /about?x`, `200 about.html`, `404 404.html` or `404`; `400` when it is refused. */
export function answer(rules: PreparedRules | undefined, target: string, files: readonly string[], canonical = false): string {
  const request = parseRequestPath(target)
  if (!request) return '400'
  const has = new Set(files)
  const options: DecideOptions = { query: request.query, rules, canonical }
  return show(decide(request.path, (file) => has.has(file), options))
}

function show(decision: Decision): string {
  if (decision.kind === 'missing') return '404'
  return `${decision.status} ${decision.kind === 'file' ? decision.path : decision.location}`
}
