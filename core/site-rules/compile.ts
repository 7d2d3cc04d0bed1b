import { parseHeaders } from './parse-headers.ts'
import { parseRedirects } from './parse-redirects.ts'
import type { RuleFault, SiteRules } from './rules.ts'

export interface CompiledRules {
  /** Undefined when there is none. */
  readonly rules: SiteRules | undefined
  /** The first ones of each file; the last of them says how many more there are. */
  readonly faults: readonly RuleFault[]
}

/** Compiles the texts of `_redirects` and `_headers` (addendum E32). A line with a fault is left out, the others stay. */
export function compileRules(texts: {
  readonly redirects?: string | undefined
  readonly headers?: string | undefined
}): CompiledRules {
  const redirects = parseRedirects(texts.redirects ?? '')
  const headers = parseHeaders(texts.headers ?? '')
  const isEmpty = redirects.rules.length + headers.blocks.length === 0
  return {
    rules: isEmpty ? undefined : { redirects: redirects.rules, headers: headers.blocks },
    faults: [...redirects.faults, ...headers.faults],
  }
}
