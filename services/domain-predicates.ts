import { sql } from 'kysely'

// What core/domain-state.ts says of a domain, as conditions on the table `domains`. Every subject that asks may import them.

export const isVerifiedDomain = sql<boolean>`domains.verified_at is not null`
export const isUnverifiedDomain = sql<boolean>`domains.verified_at is null`

/** Its workflow should be at work: it looks for the proof, or has a certificate issued. */
export const isDomainUnderWay = sql<boolean>`(domains.connected_at is null and domains.next_check_at is not null)`
