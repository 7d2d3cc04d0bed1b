import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { type CaaRecord, caaAllows, challengeAlias, challengeName } from '../../core/domains.ts'
import type { Lookup, Resolver } from '../dns/resolver.ts'
import type { Challenge } from './acme.ts'
import type { PreflightCheck, PreflightResult } from './preflight.ts'

/** The records that our own name server serves. */
export interface ChallengeRecords {
  insert(name: string, value: string): Promise<void>
  remove(name: string, value: string): Promise<void>
}

export interface ChallengeOptions {
  readonly resolver: Pick<Resolver, 'lookup' | 'lookupCaa'>
  readonly preflight: PreflightCheck
  readonly records: ChallengeRecords
  /** The zone of our own name server; without one, wildcards cannot be proved. */
  readonly zone: string | undefined
}

/** The challenges of names: wildcards through DNS, other names over HTTP. */
export interface Challenges {
  challengeOf(name: string, signal: AbortSignal): Challenge
  /**
   * The preflight check: whether the authority would find the answer to its challenge, and may issue for the name.
   * @param issuers its names in CAA records; nothing is refused while they are unknown
   */
  check(name: string, issuers: readonly string[], signal: AbortSignal): Promise<PreflightResult>
}

/** Our name server serves a new record after a second, and resolvers cache its absence for as long. */
const seenWithinMs = 15_000
const lookPauseMs = 500

export function createChallenges({ resolver, preflight, records, zone }: ChallengeOptions): Challenges {
  const isWildcard = (name: string) => name.startsWith('*.')

  /** Whether resolvers return a record that was just written. */
  async function isSeen(name: string, value: string, signal: AbortSignal): Promise<boolean> {
    for (const latest = performance.now() + seenWithinMs; performance.now() < latest; ) {
      const found = await resolver.lookup(challengeName(name), 'TXT')
      if (found.kind === 'found' && found.records.includes(value)) return true
      await delay(lookPauseMs, undefined, { signal })
    }
    return false
  }

  async function checkDns(name: string, signal: AbortSignal): Promise<PreflightResult> {
    if (zone === undefined)
      return { ok: false, message: `${name} is proved through the DNS, for which this platform has no name server` }
    const [from, to] = [challengeName(name), challengeAlias(name, zone)]
    const alias = await resolver.lookup(from, 'CNAME')
    if (alias.kind === 'failed') return { ok: false, message: `${from} could not be looked up: ${alias.reason}` }
    if (alias.kind === 'absent' || !alias.records.includes(to))
      return { ok: false, message: `add a CNAME record ${from} with the value ${to}` }
    const value = `plinth-${randomBytes(9).toString('base64url')}`
    await records.insert(to, value)
    try {
      if (await isSeen(name, value, signal)) return { ok: true, message: `${from} leads to this platform` }
    } finally {
      await records.remove(to, value)
    }
    return {
      ok: false,
      message: `the name server of this platform cannot be reached for ${to}: its zone ${zone} must be delegated to it`,
    }
  }

  return {
    challengeOf: (name, signal) => (isWildcard(name) && zone !== undefined ? overDns(zone, signal) : overHttp),

    async check(name, issuers, signal) {
      const caa = judgeCaa(await resolver.lookupCaa(name.replace(/^\*\./, '')), issuers, isWildcard(name))
      if (caa !== undefined) return { ok: false, message: caa }
      return isWildcard(name) ? await checkDns(name, signal) : await preflight(name, signal)
    },
  }

  /** When the record is not visible in time, the authority is asked all the same: it may see more than we do. */
  function overDns(zone: string, signal: AbortSignal): Challenge {
    return {
      type: 'dns-01',
      async put({ name, value }) {
        await records.insert(challengeAlias(name, zone), value)
        await isSeen(name, value, signal)
      },
      remove: ({ name, value }) => records.remove(challengeAlias(name, zone), value),
    }
  }
}

/** Nothing has to be stored: the edge answers every token by itself. */
const overHttp: Challenge = { type: 'http-01', put: () => Promise.resolve(), remove: () => Promise.resolve() }

/** Why CAA records forbid the certificate; undefined when they do not. */
function judgeCaa(caa: Lookup<CaaRecord>, issuers: readonly string[], isWildcard: boolean): string | undefined {
  if (caa.kind === 'failed')
    return `the CAA records could not be looked up, and a certificate authority refuses then: ${caa.reason}`
  const verdict = caaAllows(caa.kind === 'found' ? caa.records : [], issuers, { isWildcard })
  return verdict.ok ? undefined : verdict.message
}
