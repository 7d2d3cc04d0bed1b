import { isIPv4, isIPv6 } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { type ARecordVerdict, challengeAlias, challengeName, type Diagnosis, verificationName } from '../../core/domains.ts'
import type { Config } from '../../infra/config.ts'
import { type Lookup, openResolver } from '../../infra/dns/resolver.ts'
import { dnsServers } from '../../infra/dns/servers.ts'
import { mayBeInternal } from '../../infra/net/public-address.ts'
import {
  judgeAaaa,
  judgeAddresses,
  judgeAlias,
  judgeCaa,
  judgeChallengeAlias,
  judgeOwnership,
  judgeServers,
  type Ownership,
  plainAddress,
} from './diagnoses.ts'
import { type LookUpParts, openLookUpParts } from './look-up-parts.ts'

/** The result of one look-up of a domain. */
export interface DomainLook {
  readonly ownership: Ownership
  /** The finding about the TXT record and what to do, without the token. */
  readonly message: string
  readonly a_record: ARecordVerdict
  readonly diagnostics: readonly Diagnosis[]
}

/** Looks up a domain. It takes at most 5 s whatever the name servers do, and never rejects. */
export type LookUpDomain = (domain: { readonly domain: string; readonly verification_token: string }) => Promise<DomainLook>

/** The time limit; the rest of 5 s is left for parsing and for the database. */
const inAllMs = 4000

/** The `A` records that a domain should have. */
export const servingAddresses = ({ dns }: Pick<Config, 'dns'>) => dns.servingIps.filter((address) => isIPv4(address))

/** @throws ConfigError when a name server in the settings is no IP address */
export function openDomainLookUp(config: Config, parts: LookUpParts = openLookUpParts(config)): LookUpDomain {
  const { findIssuers, checkReach } = parts
  const servers = dnsServers(config.dns.servers)
  const resolver = openResolver({ servers, inAllMs })
  const addresses = servingAddresses(config)
  const addresses6 = config.dns.servingIps.filter((address) => isIPv6(address))
  const zone = config.acme.dns?.zone

  async function lookAtAlias(domain: string, host: string) {
    if (host === domain) {
      const cname = await resolver.lookup(host, 'CNAME')
      return (aRecordOk: boolean, isHidden: boolean) => judgeAlias(isHidden ? { kind: 'absent' } : cname, aRecordOk)
    }
    const name = challengeName(domain)
    const cname = zone === undefined ? undefined : await resolver.lookup(name, 'CNAME')
    return () => cname && zone !== undefined && judgeChallengeAlias(cname, name, challengeAlias(domain, zone))
  }

  return async ({ domain, verification_token }) => {
    const isWildcard = domain.startsWith('*.')
    // any name without a record of its own shows the wildcard's records
    const host = isWildcard ? `wildcard-check${domain.slice(1)}` : domain
    const [txt, a, aaaa, judgeCname, caa, issuers, port80] = await Promise.all([
      resolver.lookupAgreed(verificationName(domain), 'TXT'),
      resolver.lookup(host, 'A'),
      resolver.lookup(host, 'AAAA'),
      lookAtAlias(domain, host),
      resolver.lookupCaa(isWildcard ? domain.slice(2) : domain),
      findIssuers ? inTime(findIssuers, () => []) : [],
      // a wildcard is proved through DNS
      checkReach && !isWildcard ? reach(host, checkReach) : undefined,
    ])
    const { ownership, txt: proof } = judgeOwnership(txt, domain, verification_token)
    const [shownA, shownAaaa] = [withoutInternal(a, addresses), withoutInternal(aaaa, addresses6)]
    const a_record = judgeAddresses(shownA, addresses)
    const diagnostics = [
      proof,
      judgeAaaa(shownAaaa, addresses6),
      judgeCname(a_record.ok, shownA !== a || shownAaaa !== aaaa),
      judgeCaa(caa, issuers, isWildcard),
      judgeServers(txt, servers.length),
      port80,
    ].filter((diagnosis) => diagnosis !== undefined && diagnosis !== false)
    return { ownership, message: proof.message, a_record, diagnostics }
  }
}

/**
 * The records without the addresses that only the network of the platform has: the name servers of the platform may know names that others do not,
 * and a user can add any name. Nothing distinguishes a name with such addresses alone from an unknown one.
 */
function withoutInternal(found: Lookup<string>, serving: readonly string[]): Lookup<string> {
  if (found.kind !== 'found') return found
  const own = serving.map(plainAddress)
  const records = found.records.filter((address) => own.includes(plainAddress(address)) || !mayBeInternal(address))
  if (records.length === found.records.length) return found
  return records.length === 0 ? { kind: 'absent' } : { kind: 'found', records }
}

async function reach(name: string, checkReach: NonNullable<LookUpParts['checkReach']>): Promise<Diagnosis> {
  const late = `port 80 did not answer within ${inAllMs / 1000} s`
  const { ok, message } = await inTime(
    (signal) => checkReach(name, signal),
    (error) => ({ ok: false, message: error === undefined ? late : `port 80 could not be asked: ${error.message}` }),
  )
  return { check: 'port_80', ok, found: [], message }
}

/** The result of the work, or that of `otherwise` when the work fails or takes too long. */
async function inTime<T>(work: (signal: AbortSignal) => Promise<T>, otherwise: (error?: Error) => T): Promise<T> {
  const ended = new AbortController()
  const late = setTimeout(inAllMs, undefined, { signal: ended.signal }).then(() => otherwise())
  try {
    return await Promise.race([work(ended.signal), late])
  } catch (error) {
    return otherwise(error as Error)
  } finally {
    ended.abort()
  }
}
