import { freeSubdomainLength, maxSubdomainLength, minSubdomainLength } from './limits.ts'

const label = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/

/** Names that are reserved for the platform or would mislead visitors. */
const reserved = new Set(
  `www www1 www2 api apis mcp preview previews panel admin administrator mail email smtp imap pop pop3 ns ns1 ns2 ns3 ns4 dns
  status support help docs doc cdn static assets media img images app apps blog login logout signin signup register account
  accounts auth oauth sso billing pay payment payments checkout shop store dashboard console portal security abuse postmaster
  hostmaster webmaster root system internal intranet localhost local test testing staging stage production dev develop
  developer developers demo git gitlab github gitea webhook webhooks hooks forms form edge caddy temporal runner build builds
  deploy deploys proxy gateway ftp sftp ssh vpn autoconfig autodiscover mta-sts wpad isatap platform service services
  operator plinth metrics healthz readyz`
    .split(/\s+/)
    .filter((name) => name !== ''),
)

export type SubdomainVerdict = { readonly ok: true; readonly subdomain: string } | { readonly ok: false; readonly reason: string }

/** Lower-cases and checks a subdomain (addendum E13): one DNS label of 5 to 63 characters, no `--` as third and fourth character. */
export function parseSubdomain(raw: string): SubdomainVerdict {
  const subdomain = raw.toLowerCase()
  const refuse = (reason: string) => ({ ok: false, reason }) as const
  if (subdomain === '') return refuse('is missing: choose a name of 5 to 63 letters, digits and hyphens')
  if (subdomain.length < minSubdomainLength) return refuse(`is too short: use at least ${minSubdomainLength} characters`)
  if (subdomain.length > maxSubdomainLength) return refuse(`is too long: use at most ${maxSubdomainLength} characters`)
  if (!label.test(subdomain)) return refuse('may have only letters, digits and hyphens, and no hyphen at its start or end')
  if (subdomain.slice(2, 4) === '--') return refuse('may not have hyphens at its third and fourth place')
  return { ok: true, subdomain }
}

export const isReservedSubdomain = (subdomain: string) => reserved.has(subdomain)

/** Whether the name is so short that a free plan may not take it. */
export const isShortSubdomain = (subdomain: string) => subdomain.length < freeSubdomainLength
