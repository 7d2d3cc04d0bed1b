import { type ExpressionBuilder, sql } from 'kysely'
import { jsonArrayFrom, jsonObjectFrom } from 'kysely/helpers/postgres'
import type { AccessMode } from '../../core/access.ts'
import type { ConsentMode, FormStyle } from '../../core/members.ts'
import type { MessengerName } from '../../core/messengers.ts'
import type { DB, FaviconMode } from '../../infra/db/schema.ts'

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
  /** Visits of members that consented to an earlier version have to consent again. */
  readonly consent_version: number
  readonly terms: RouteTerms
  /** How the login page looks; null when its owner has set nothing. */
  readonly brand: RouteBrand | null
}

export interface RouteGeneration {
  readonly subject: string
  readonly generation: number
}

/** What the owner of a closed site asks of its visitors, as the login page shows it. */
export interface RouteTerms {
  readonly ask_name: boolean
  /** Null for the usual one. */
  readonly name_label: string | null
  readonly consent_mode: ConsentMode
  readonly form_style: FormStyle
  readonly documents: readonly { readonly id: string; readonly title: string; readonly url: string }[]
  /** Null for sites without one. */
  readonly price: RoutePrice | null
  /** Whose subscribers are let in. */
  readonly channels: readonly RouteChannel[]
}

/** Of a site that asks for nothing but a password. */
export const noTerms: RouteTerms = {
  ask_name: false,
  name_label: null,
  consent_mode: 'none',
  form_style: 'card',
  documents: [],
  price: null,
  channels: [],
}

export interface RoutePrice {
  /** In the smallest unit of the currency. */
  readonly amount_minor: number
  /** ISO 4217, in upper case. */
  readonly currency: string
  /** Null for ever. */
  readonly period_days: number | null
}

export interface RouteChannel {
  readonly provider: MessengerName
  readonly title: string
  /** Null for a channel without a public address. */
  readonly url: string | null
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

type Tables = Pick<DB, 'sites' | 'access_locks' | 'access_generations' | 'access_brands' | 'member_settings'>

/** The {@link RouteTerms} of the site of the row `sites`, as JSON. */
export const termsOfSite = sql<RouteTerms>`(
  select jsonb_build_object(
    'ask_name', coalesce(asked.ask_name, false),
    'name_label', asked.name_label,
    'consent_mode', coalesce(asked.consent_mode, 'none'),
    'form_style', coalesce(asked.form_style, 'card'),
    'documents', coalesce((
      select jsonb_agg(jsonb_build_object('id', id, 'title', title, 'url', url) order by position)
      from site_documents where site_id = sites.id), '[]'),
    'price', (
      select jsonb_build_object('amount_minor', amount_minor, 'currency', currency, 'period_days', period_days)
      from access_prices where site_id = sites.id),
    'channels', coalesce((
      select jsonb_agg(jsonb_build_object('provider', provider, 'title', title, 'url', url) order by id)
      from messenger_channels where id in (select channel_id from access_channels where site_id = sites.id)), '[]'))
  from (select) as one left join member_settings asked on asked.site_id = sites.id)`

/** The lock of a site, or none. */
export const routeLock = (eb: ExpressionBuilder<Tables, 'sites'>) =>
  eb
    .selectFrom('access_locks as lock')
    .select(['lock.mode', 'lock.epoch', 'lock.bypass_sha256', 'sites.previews_closed'])
    .select(termsOfSite.as('terms'))
    .select((eb) =>
      eb.fn
        .coalesce(
          eb.selectFrom('member_settings as asked').select('asked.consent_version').whereRef('asked.site_id', '=', 'sites.id'),
          eb.val(0),
        )
        .as('consent_version'),
    )
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
