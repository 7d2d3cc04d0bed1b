import {
  type CaaRecord,
  caaAllows,
  type Diagnosis,
  type DiagnosisCheck,
  judgeA,
  txtMatches,
  verificationName,
} from '../../core/domains.ts'
import type { AgreedLookup, Lookup } from '../../infra/dns/resolver.ts'

/** The most records of one kind that are shown; a zone may have thousands. */
const maxShown = 20
const maxShownLength = 300
const shown = (values: readonly string[]) => values.slice(0, maxShown).map((value) => value.slice(0, maxShownLength))
const recordsOf = <R>(found: Lookup<R>) => (found.kind === 'found' ? found.records : [])
const diagnosis = (check: DiagnosisCheck, ok: boolean, found: readonly string[], message: string): Diagnosis => ({
  check,
  ok,
  found: shown(found),
  message,
})

/** `unknown`: the name servers did not answer or disagree, which proves nothing about the record. */
export type Ownership = 'proven' | 'missing' | 'unknown'

export interface OwnershipVerdict {
  readonly ownership: Ownership
  readonly txt: Diagnosis
}

export function judgeOwnership(txt: AgreedLookup<string>, domain: string, token: string): OwnershipVerdict {
  const name = verificationName(domain)
  const records = recordsOf(txt)
  const verdict = (ownership: Ownership, message: string) => ({
    ownership,
    txt: diagnosis('txt', ownership === 'proven', records, message),
  })
  if (txtMatches(records, token)) return verdict('proven', `the TXT record ${name} proves the ownership`)
  if (txt.kind === 'failed')
    return verdict('unknown', `the name servers did not tell whether there is a TXT record ${name}: ${txt.reason}; try again`)
  if (txt.disagreement)
    return verdict(
      'unknown',
      `not all name servers have the TXT record ${name} yet: a change is spreading; try again in a few minutes`,
    )
  if (records.length === 0)
    return verdict('missing', `there is no TXT record ${name}: add one with the verification token as its value`)
  return verdict('missing', `the TXT record ${name} has another value: it must be the verification token`)
}

/** @param serverCount the number of name servers; a single one cannot disagree */
export function judgeServers(txt: AgreedLookup<string>, serverCount: number): Diagnosis | undefined {
  if (txt.kind === 'failed') return diagnosis('name_servers', false, [], `the name servers did not answer: ${txt.reason}`)
  if (serverCount < 2) return undefined
  const message = txt.disagreement
    ? 'the name servers do not have the same records: a change is spreading, or one of them was forgotten'
    : 'the name servers agree'
  return diagnosis('name_servers', !txt.disagreement, [], message)
}

/** A failed look-up does not mean a missing record, and its message says so. */
export function judgeAddresses(a: Lookup<string>, expected: readonly string[]) {
  const verdict = judgeA(recordsOf(a), expected)
  return a.kind === 'failed' ? { ...verdict, message: `the A record could not be looked up: ${a.reason}; try again` } : verdict
}

export function judgeAaaa(aaaa: Lookup<string>, expected: readonly string[]): Diagnosis | undefined {
  if (aaaa.kind === 'failed') return undefined
  const found = recordsOf(aaaa).map(plainAddress)
  const wrong = found.filter((address) => !expected.map(plainAddress).includes(address))
  if (wrong.length > 0)
    return diagnosis(
      'aaaa',
      false,
      found,
      `visitors and the certificate authority prefer IPv6, which leads elsewhere: remove the AAAA record ${shown(wrong).join(', ')}`,
    )
  return diagnosis('aaaa', true, found, found.length > 0 ? 'the AAAA record points to this platform' : 'there is no AAAA record')
}

/** A CNAME counts as the address to which it resolves. */
export function judgeAlias(cname: Lookup<string>, aRecordOk: boolean): Diagnosis | undefined {
  const [target] = recordsOf(cname)
  if (cname.kind === 'failed') return undefined
  if (target === undefined) return diagnosis('cname', true, [], 'the name is no alias')
  const message = aRecordOk
    ? `the name is an alias of ${target}, which leads to this platform`
    : `the name is an alias of ${target}, which does not lead to this platform: remove the CNAME record`
  return diagnosis('cname', aRecordOk, [target], message)
}

/** The certificate of a wildcard needs the CNAME of its challenge. */
export function judgeChallengeAlias(cname: Lookup<string>, name: string, alias: string): Diagnosis | undefined {
  if (cname.kind === 'failed') return undefined
  const found = recordsOf(cname)
  const ok = found.includes(alias)
  return diagnosis(
    'cname',
    ok,
    found,
    ok ? `${name} leads to this platform` : `add a CNAME record ${name} with the value ${alias}`,
  )
}

export function judgeCaa(caa: Lookup<CaaRecord>, issuers: readonly string[], isWildcard: boolean): Diagnosis {
  const records = recordsOf(caa)
  const found = records.map(({ flags, tag, value }) => `${flags} ${tag} "${value}"`)
  if (caa.kind === 'failed')
    return diagnosis('caa', false, [], `a certificate authority refuses when it cannot look CAA records up: ${caa.reason}`)
  const verdict = caaAllows(records, issuers, { isWildcard })
  if (!verdict.ok) return diagnosis('caa', false, found, verdict.message)
  return diagnosis(
    'caa',
    true,
    found,
    found.length > 0 ? 'CAA records allow the certificate' : 'no CAA record restricts certificates',
  )
}

/** The canonical form of an address, for IPv6 that of RFC 5952, as in URLs. */
export const plainAddress = (address: string) => URL.parse(`http://[${address}]`)?.hostname.slice(1, -1) ?? address
