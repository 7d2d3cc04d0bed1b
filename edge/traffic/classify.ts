import { LRUCache } from 'lru-cache'
import { moscowDay } from '../../core/traffic-days.ts'
import { type BotReason, countedAs, isProbe, pagePathOf, refererHostOf, sourceOf } from '../../core/traffic-hits.ts'
import { type Client, hitFlags, type NotedRequest } from './hit.ts'
import type { Program, Programs } from './programs.ts'
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

/** Hosts, referrers and targets that are remembered. */
const maxKnown = 5000
/** Longer targets are looked at each time: few are, and remembering them takes memory. */
const maxKnownTarget = 200
const hourMs = 3_600_000

export type Classify = (request: NotedRequest, atMs: number, bytes: number) => Classified

/** Decides what hits count for. It remembers visitors, so hits have to come in their order. */
export function createClassifier(programs: Programs, visitors: Visitors): Classify {
  /** By host. A visitor who comes from one host of a site to another has opened the first one before. */
  const sites = new LRUCache<string, string>({ max: maxKnown })
  const refererHosts = new LRUCache<string, { readonly host: string | undefined }>({ max: maxKnown })
  const pages = new LRUCache<string, Page>({ max: maxKnown })
  const dayOf = createDays()

  function sourceOfHit(referer: string, { siteId, host }: Client): string {
    if (sites.get(host) !== siteId) sites.set(host, siteId)
    if (referer === '') return sourceOf(undefined, false)
    const from = hostOf(referer)
    return sourceOf(from, from !== undefined && sites.get(from) === siteId)
  }

  function hostOf(referer: string): string | undefined {
    const known = refererHosts.get(referer)
    if (known) return known.host
    const from = refererHostOf(referer)
    refererHosts.set(referer, { host: from })
    return from
  }

  function pageOf(target: string): Page {
    const known = pages.get(target)
    if (known) return known
    const path = pagePathOf(target)
    const page = { path, isProbe: isProbe(path, 200), isProbeWhenMissing: isProbe(path, 404) }
    if (target.length <= maxKnownTarget) pages.set(target, page)
    return page
  }

  function reasonOf(
    { client, flags }: NotedRequest,
    program: Program,
    visitor: Visitor,
    isTooFast: boolean,
  ): BotReason | undefined {
    if (program.isBot) return 'ua_bot'
    if (client.userAgent === '') return 'no_ua'
    if (!(flags & hitFlags.acceptsLanguage)) return 'no_accept_language'
    if (visitor.isProbing) return 'probe_path'
    if (isTooFast) return 'too_fast'
    return flags & hitFlags.prefetch ? 'prefetch' : undefined
  }

  return (request, atMs, bytes) => {
    const day = dayOf(atMs)
    const { flags, status, client } = request
    const counted = countedAs({
      status,
      isHead: (flags & hitFlags.head) !== 0,
      kind: flags & hitFlags.page ? 'page' : flags & hitFlags.download ? 'download' : 'part',
      fromStart: (flags & hitFlags.fromStart) !== 0,
    })
    const visitor = visitors.of(day, client)
    const program = programs.of(client.userAgent)
    const page = counted === 'nothing' ? nowhere : pageOf(request.target)
    if (status === 404 ? page.isProbeWhenMissing : page.isProbe) visitor.isProbing = true
    const isView = counted === 'view'
    // counted for every view, also for those that have another reason
    const isTooFast = isView && visitors.isTooFast(visitor, atMs)
    const reason = reasonOf(request, program, visitor, isTooFast)
    const source = isView ? sourceOfHit(request.referer, client) : ''
    return { siteId: client.siteId, day, counted, bytes, visitor, reason, path: page.path, device: program.device, source }
  }
}

/** What a target is about. */
interface Page {
  readonly path: string
  readonly isProbe: boolean
  readonly isProbeWhenMissing: boolean
}

const nowhere: Page = { path: '', isProbe: false, isProbeWhenMissing: false }

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
