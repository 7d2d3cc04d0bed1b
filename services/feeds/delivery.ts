import type { ExpressionBuilder } from 'kysely'
import type { DB } from '../../infra/db/schema.ts'

/** A file that visitors may download with a link. */
export interface RouteFile {
  readonly id: string
  readonly name: string
  readonly label: string | null
  readonly content_type: string
  readonly sha256: string
  readonly size: number
}

/** How the page with the files looks. */
export interface RoutePage {
  readonly page_title: string | null
  readonly upsell_text: string | null
  /** A WebP image; null without one. */
  readonly logo_sha256: string | null
  readonly logo_size: number | null
  readonly page_logo_framed: boolean
  readonly page_logo_rounded: boolean
}

/** The files of a site for visitors, oldest first. */
export const deliveryFiles = (eb: ExpressionBuilder<Pick<DB, 'sites' | 'delivery_files'>, 'sites'>) =>
  eb
    .selectFrom('delivery_files as file')
    .select(['file.id', 'file.name', 'file.label', 'file.content_type', 'file.sha256', 'file.size'])
    .whereRef('file.site_id', '=', 'sites.id')
    .orderBy('file.id')

/** The page of the files, or none. */
export const deliveryPage = (eb: ExpressionBuilder<Pick<DB, 'sites' | 'delivery_pages'>, 'sites'>) =>
  eb
    .selectFrom('delivery_pages as page')
    .select(['page.page_title', 'page.upsell_text', 'page.logo_sha256', 'page.logo_size'])
    .select(['page.page_logo_framed', 'page.page_logo_rounded'])
    .whereRef('page.site_id', '=', 'sites.id')
