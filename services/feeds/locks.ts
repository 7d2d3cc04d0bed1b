import { type ExpressionBuilder, sql } from 'kysely'
import { jsonArrayFrom, jsonObjectFrom } from 'kysely/helpers/postgres'
import type { AccessMode, DB, FaviconMode } from '../../infra/db/schema.ts'

/** What the edge needs to know of a closed site (addendum E36). */
export interface RouteLock {
  readonly mode: AccessMode
  /** Part of every visit: visits of another epoch are over. */
  readonly epoch: string
  /** RFC 3339; after it nobody enters, and nobody stays. */
  readonly expires_at: string | null
  /** Of the token with which machines pass; null when there is none. */
  readonly bypass_sha256: string | null
  /** Whether preview links of the site answer 404. */
  readonly previews_closed: boolean
  /** Subjects whose earlier visits are over, with the lowest generation that is let in; that of all others is 0. */
  readonly generations: readonly RouteGeneration[]
  /** How the login page looks; null when its owner has set nothing. */
  readonly brand: RouteBrand | null
}

export interface RouteGeneration {
  readonly subject: string
  readonly generation: number
}

export interface RouteBrand {
  readonly title: string | null
  readonly description: string | null
  /** WebP images; null without one. */
  readonly logo_sha256: string | null
  readonly logo_size: number | null
  readonly logo_framed: boolean
  readonly logo_rounded: boolean
  readonly favicon_mode: FaviconMode
  readonly favicon_sha256: string | null
  readonly favicon_size: number | null
}

type Tables = Pick<DB, 'sites' | 'access_locks' | 'access_generations' | 'access_brands'>

/** The lock of a site, or none. */
export const routeLock = (eb: ExpressionBuilder<Tables, 'sites'>) =>
  eb
    .selectFrom('access_locks as lock')
    .select(['lock.mode', 'lock.epoch', 'lock.bypass_sha256', 'sites.previews_closed'])
    .select(sql<string | null>`to_char(lock.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`.as('expires_at'))
    .select((eb) =>
      jsonArrayFrom(
        eb
          .selectFrom('access_generations as raised')
          .select(['raised.subject', 'raised.generation'])
          .whereRef('raised.site_id', '=', 'sites.id')
          .orderBy('raised.subject'),
      ).as('generations'),
    )
    .select((eb) =>
      jsonObjectFrom(
        eb
          .selectFrom('access_brands as brand')
          .select(['brand.title', 'brand.description', 'brand.logo_sha256', 'brand.logo_size'])
          .select(['brand.logo_framed', 'brand.logo_rounded'])
          .select(['brand.favicon_mode', 'brand.favicon_sha256', 'brand.favicon_size'])
          .whereRef('brand.site_id', '=', 'sites.id'),
      ).as('brand'),
    )
    .whereRef('lock.site_id', '=', 'sites.id')
