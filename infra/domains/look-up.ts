import { isIPv4, isIPv6 } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { type ARecordVerdict, challengeAlias, challengeName, type Diagnosis, verificationName } from '../../core/domains.ts'
import type { Config } from '../config.ts'
import { openResolver } from '../dns/resolver.ts'
import { dnsServers } from '../dns/servers.ts'
import {
  judgeAaaa,
  judgeAddresses,
  judgeAlias,
  judgeCaa,
  judgeChallengeAlias,
  judgeOwnership,
  judgeServers,
  type Ownership,
} from './diagnoses.ts'

/** What the DNS says of a domain at one moment. */
export interface DomainLook {
  readonly ownership: Ownership
  /** What was found of the TXT record and what to do, without the token. */
  readonly message: string
  readonly a_record: ARecordVerdict
  readonly diagnostics: readonly Diagnosis[]
}

/** Answers within 5 s whatever the name servers do, and never rejects. */
export type LookUpDomain = (domain: { readonly domain: string; readonly verification_token: string }) => Promise<DomainLook>

export interface LookUpParts {
  /** Names of the certificate authority in CAA records; nothing is refused while they are unknown. */
  readonly issuers?: readonly string[]
  /** Asks for our own token at the name, on port 80. */
  readonly checkReach?: (name: string) => Promise<{ readonly ok: boolean; readonly message: string }>
}

/** What is left of 5 s is for reading answers and for the database. */
const inAllMs = 4000

/** The `A` records that a domain should have. */
export const servingAddresses = ({ dns }: Pick<Config, 'dns'>) => dns.servingIps.filter((address) => isIPv4(address))

/** @throws ConfigError when a name server of the settings is no address */
export function openDomainLookUp(
  config: Pick<Config, 'dns' | 'acme'>,
  { issuers = [], checkReach }: LookUpParts = {},
): LookUpDomain {
  const servers = dnsServers(config.dns.servers)
  const resolver = openResolver({ servers, inAllMs })
  const addresses = servingAddresses(config)
  const addresses6 = config.dns.servingIps.filter((address) => isIPv6(address))
  const zone = config.acme.dns?.zone

  async function lookAtAlias(domain: string, host: string) {
    if (host === domain) {
      const cname = await resolver.lookup(host, 'CNAME')
      return (aRecordOk: boolean) => judgeAlias(cname, aRecordOk)
    }
    const name = challengeName(domain)
    const cname = zone === undefined ? undefined : await resolver.lookup(name, 'CNAME')
    return () => cname && zone !== undefined && judgeChallengeAlias(cname, name, challengeAlias(domain, zone))
  }

  return async ({ domain, verification_token }) => {
    const isWildcard = domain.startsWith('*.')
    // any name answers for the wildcard that no record of its own has
    const host = isWildcard ? `wildcard-check${domain.slice(1)}` : domain
    const [txt, a, aaaa, judgeCname, caa, port80] = await Promise.all([
      resolver.lookupAgreed(verificationName(domain), 'TXT'),
      resolver.lookup(host, 'A'),
      resolver.lookup(host, 'AAAA'),
      lookAtAlias(domain, host),
      resolver.lookupCaa(isWildcard ? domain.slice(2) : domain),
      checkReach && reach(checkReach, host),
    ])
    const { ownership, txt: proof } = judgeOwnership(txt, domain, verification_token)
    const a_record = judgeAddresses(a, addresses)
    const diagnostics = [
      proof,
      judgeAaaa(aaaa, addresses6),
      judgeCname(a_record.ok),
      judgeCaa(caa, issuers, isWildcard),
      judgeServers(txt, servers.length),
      port80,
    ].filter((diagnosis) => diagnosis !== undefined && diagnosis !== false)
    return { ownership, message: proof.message, a_record, diagnostics }
  }
}

async function reach(checkReach: NonNullable<LookUpParts['checkReach']>, name: string): Promise<Diagnosis> {
  const late = new AbortController()
  try {
    const { ok, message } = await Promise.race([
      checkReach(name),
      setTimeout(inAllMs, { ok: false, message: `port 80 did not answer within ${inAllMs / 1000} s` }, { signal: late.signal }),
    ])
    return { check: 'port_80', ok, found: [], message }
  } catch (error) {
    return { check: 'port_80', ok: false, found: [], message: `port 80 could not be asked: ${(error as Error).message}` }
  } finally {
    late.abort()
  }
}
