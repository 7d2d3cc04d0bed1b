import { LRUCache } from 'lru-cache'
import { moscowDay } from '../../core/traffic-days.ts'
import { type BotReason, countedAs, isProbe, pagePathOf, refererHostOf, sourceOf } from '../../core/traffic-hits.ts'
import type { Program, Programs } from './programs.ts'
import { type Hit, hitFlags } from './ring.ts'
import type { Visitor, Visitors } from './visitors.ts'

/** What a hit counts for. */
export interface Classified {
  readonly siteId: string
  readonly day: string
  readonly counted: ReturnType<typeof countedAs>
  readonly bytes: number
  readonly visitor: Visitor
  /** Undefined for a person. */
  readonly reason: BotReason | undefined
  readonly path: string
  readonly device: Program['device']
  readonly source: string
}

/** Hosts and referrers that are remembered. */
const maxKnown = 5000
const hourMs = 3_600_000

/** Decides what hits count for. It remembers visitors, so hits have to come in their order. */
export function createClassifier(programs: Programs, visitors: Visitors): (hit: Hit) => Classified {
  /** By host. A visitor who comes from one host of a site to another has opened the first one before. */
  const sites = new LRUCache<string, string>({ max: maxKnown })
  const refererHosts = new LRUCache<string, { readonly host: string | undefined }>({ max: maxKnown })
  const dayOf = createDays()

  function sourceOfHit({ referer, siteId, host }: Hit): string {
    sites.set(host, siteId)
    if (referer === '') return sourceOf(undefined, false)
    const known = refererHosts.get(referer) ?? { host: refererHostOf(referer) }
    refererHosts.set(referer, known)
    return sourceOf(known.host, known.host !== undefined && sites.get(known.host) === siteId)
  }

  function reasonOf(hit: Hit, program: Program, visitor: Visitor, isView: boolean): BotReason | undefined {
    // counted for every view, also for those that have another reason
    const isTooFast = isView && visitors.isTooFast(visitor, hit.atMs)
    if (program.isBot) return 'ua_bot'
    if (hit.userAgent === '') return 'no_ua'
    if (!(hit.flags & hitFlags.acceptsLanguage)) return 'no_accept_language'
    if (visitor.isProbing) return 'probe_path'
    if (isTooFast) return 'too_fast'
    return hit.flags & hitFlags.prefetch ? 'prefetch' : undefined
  }

  return (hit) => {
    const day = dayOf(hit.atMs)
    const { flags, status, siteId } = hit
    const counted = countedAs({
      status,
      isHead: (flags & hitFlags.head) !== 0,
      kind: flags & hitFlags.page ? 'page' : flags & hitFlags.download ? 'download' : 'part',
      fromStart: (flags & hitFlags.fromStart) !== 0,
    })
    const visitor = visitors.of(day, siteId, hit.address, hit.userAgent)
    const program = programs.of(hit.userAgent)
    const path = counted === 'nothing' ? '' : pagePathOf(hit.target)
    if (counted !== 'nothing' && isProbe(path, status)) visitor.isProbing = true
    const isView = counted === 'view'
    const reason = reasonOf(hit, program, visitor, isView)
    const source = isView ? sourceOfHit(hit) : ''
    return { siteId, day, counted, bytes: hit.bytes, visitor, reason, path, device: program.device, source }
  }
}

/** The date in Moscow is computed once an hour. */
function createDays() {
  let hour = -1
  let day = ''
  return (ms: number) => {
    const now = Math.floor(ms / hourMs)
    if (now !== hour) {
      hour = now
      day = moscowDay(ms)
    }
    return day
  }
}
