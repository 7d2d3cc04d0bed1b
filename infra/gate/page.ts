import { escapeHtml } from '../../core/html.ts'
import type { PageLanguage } from '../../core/page-language.ts'
import { gatePaths } from '../../core/visits.ts'
import { pageKind } from '../web-page.ts'
import { errorText, withMessenger } from './parts.ts'
import type { GateState } from './state.ts'
import { providerAddress, stepOf } from './steps.ts'
import { gateStyle } from './style.ts'
import { documentsOf, type GateTerms } from './terms.ts'
import { gateTexts } from './texts.ts'

/** How the owner wants the login page to look: a part of the route. */
export interface GateBrand {
  readonly title: string | null
  readonly description: string | null
  readonly logo_sha256: string | null
  readonly logo_framed: boolean
  readonly logo_rounded: boolean
  readonly favicon_mode: 'site' | 'custom' | 'none'
  readonly favicon_sha256: string | null
}

const kind = pageKind({ css: gateStyle, policy: ["img-src 'self' data:"], formAction: "'self'" })

const headers = [
  ['Content-Type', 'text/html; charset=utf-8', 'Content-Security-Policy', kind.policy],
  ['Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff', 'X-Robots-Tag', 'noindex'],
  // browsers send `Origin: null` with the forms of a page whose policy is `no-referrer`
  ['Referrer-Policy', 'same-origin'],
].flat()

/** Longer return paths are left out. */
const maxToLength = 2048
/** An icon that is empty: browsers do not look for another one. */
const noIcon = 'data:,'

interface Shown {
  readonly lang: PageLanguage
  readonly state: GateState
  readonly brand: GateBrand | null
  readonly terms: GateTerms
  /** Whether everybody who asks for a code gets one, as visitors do who register themselves. */
  readonly isOpenToAll: boolean
  /** A path of the site that the forms return to; what is none, and a very long one, becomes `/`. */
  readonly to: string
}

interface GatePage {
  readonly status: number
  readonly headers: readonly string[]
  readonly body: Buffer
}

/**
 * The page of a closed site at which visitors log in and out. What the owner and the visitor wrote is text. Without a brand and terms, nothing on
 * the page says what the site is.
 */
export function gatePage({ lang, state, brand, terms, isOpenToAll, to: wanted }: Shown): GatePage {
  const to = wanted.length <= maxToLength && /^\/(?![/\\])/.test(wanted) ? wanted : '/'
  const texts = gateTexts[lang]
  const about = texts[state.kind].title
  const heading = withMessenger(texts[state.kind].heading, state)
  const error = errorText(state, { lang, terms })
  const said = error === undefined ? about : `${texts.errorPrefix}${error}`
  const main = [
    ...(terms.form_style === 'card' ? ['<div class="card">'] : []),
    ...logoOf(brand),
    `<h1 dir="auto">${escapeHtml(brand?.title ?? heading)}</h1>`,
    ...(brand?.description ? [`<p class="text" dir="auto">${escapeHtml(brand.description)}</p>`] : []),
    // the first page needs no second heading
    ...(brand?.title == null || isFirst(state) ? [] : [`<h2>${escapeHtml(heading)}</h2>`]),
    ...stepOf(state, { lang, terms, isOpenToAll, to }),
    ...(namesDocuments(state, terms) ? [] : documentsOf(terms, lang)),
    ...(terms.form_style === 'card' ? ['</div>'] : []),
  ]
  const title = brand?.title == null ? said : `${said} – ${brand.title}`
  const body = Buffer.from(kind.html({ lang, title, icon: iconOf(brand), main: main.join('\n') }))
  return { status: statusOf(state), headers: [...headers, ...refreshOf(state)], body }
}

const isFirst = ({ kind }: GateState) => ['password', 'email', 'members', 'paid', 'subscribers'].includes(kind)

/** Whether the documents stand in the sentence with which members agree to them. */
function namesDocuments({ kind }: GateState, { consent_mode }: GateTerms): boolean {
  if (kind === 'members' || kind === 'paid') return consent_mode === 'notice'
  return consent_mode !== 'none' && (kind === 'register' || kind === 'consent')
}

/** Of pages that are no step on the way in. */
const statuses: { readonly [Kind in GateState['kind']]?: number } = {
  rejected: 403,
  blocked: 403,
  stranger: 403,
  pay: 402,
  pay_owner: 402,
  unpaid: 402,
  paying: 200,
  away: 503,
  logout: 200,
}

function statusOf(state: GateState): number {
  const error = 'error' in state ? state.error : undefined
  if (error === 'wait') return 429
  return error === 'origin' ? 403 : (statuses[state.kind] ?? 401)
}

/** How often the page of a payment looks for news. */
const paymentPauseSeconds = 2

/** Where the browser goes on by itself. A form cannot lead to the page of another host (`form-action`), but this page can. */
function refreshOf(state: GateState): readonly string[] {
  if (state.kind !== 'paying') return []
  const address = providerAddress(state.url)
  return ['Refresh', address === undefined ? `${paymentPauseSeconds}; url=${gatePaths.payment}` : `0; url=${address}`]
}

/** The version in the query changes with the image, which browsers may keep. */
const imageOf = (name: string, sha256: string) => `${gatePaths.brand}${name}.webp?v=${sha256.slice(0, 16)}`

function logoOf(brand: GateBrand | null): string[] {
  if (brand === null || brand.logo_sha256 === null) return []
  const classes = ['logo', ...(brand.logo_framed ? ['framed'] : []), ...(brand.logo_rounded ? ['rounded'] : [])]
  return [`<img class="${classes.join(' ')}" src="${escapeHtml(imageOf('logo', brand.logo_sha256))}" alt="">`]
}

/** With the mode `site`, browsers ask the site for its icon, which is closed as well. */
function iconOf(brand: GateBrand | null): string | undefined {
  if (brand?.favicon_mode === 'custom' && brand.favicon_sha256 !== null) return imageOf('favicon', brand.favicon_sha256)
  return brand?.favicon_mode === 'none' ? noIcon : undefined
}
