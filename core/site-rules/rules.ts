/** What a rule of `_redirects` answers with: a redirect, the file at the target (200), or the page at the target as not found (404). */
export const ruleStatuses = [200, 301, 302, 303, 307, 308, 404] as const
export type RuleStatus = (typeof ruleStatuses)[number]
export type RedirectStatus = Exclude<RuleStatus, 200 | 404>

/** A line of `_redirects` (addendum E32). Plain data: it is stored with the deploy. */
export interface RedirectRule {
  /** Counted from 1. */
  readonly line: number
  /** The path as it is written, with placeholders (`/:year`) and at most one splat (`/*`), at the end. */
  readonly from: string
  /** Parameters that the query must have: name and value; a value `:name` stands for any and may be used in the target. */
  readonly query?: readonly (readonly [string, string])[]
  /** A path of the site, or an address with a host. */
  readonly to: string
  readonly status: RuleStatus
  /** The rule applies even where a file exists. */
  readonly force?: true
}

/** A path of `_headers` with the lines below it. Plain data: it is stored with the deploy. */
export interface HeaderBlock {
  readonly line: number
  /** As {@link RedirectRule.from}. */
  readonly path: string
  readonly set: readonly (readonly [string, string])[]
  /** Names whose values from earlier blocks are taken back, `! Name`. */
  readonly unset?: readonly string[]
}

export interface SiteRules {
  readonly redirects: readonly RedirectRule[]
  readonly headers: readonly HeaderBlock[]
}

export type RuleFile = '_redirects' | '_headers'

/** A line that is left out. */
export interface RuleFault {
  readonly file: RuleFile
  readonly line: number
  /** Follows the place: "has no target". */
  readonly reason: string
  /** The line sets a header of caching. */
  readonly about?: 'caching'
}

export const maxStaticRules = 2000
/** Rules with a placeholder, a splat or a condition on the query: they are tried one by one. */
export const maxDynamicRules = 100
export const maxHeaderBlocks = 100
export const maxRedirectLine = 1000
export const maxHeaderLine = 2000
export const maxRuleFileBytes = 1024 * 1024
/** Lines that are neither empty nor a comment. */
export const maxRuleLines = 5000
/** The most faults that are described, of each file. */
export const maxRuleFaults = 20
