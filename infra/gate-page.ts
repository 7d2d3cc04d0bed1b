import { maxPasswordLength } from '../core/access.ts'
import { escapeHtml } from '../core/html.ts'
import type { PageLanguage } from '../core/page-language.ts'
import { gatePaths } from '../core/visits.ts'
import type { GateError, GateState } from './gate-state.ts'
import { gateTexts } from './gate-texts.ts'
import { pageKind } from './web-page.ts'

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

const css = `
:root{--bad:#b3261e;--focus:#0b57d0;--field:#fff}
@media (prefers-color-scheme:dark){:root{--bad:#f2b8b5;--focus:#8ab4f8;--field:#1c2024}}
body{grid-template-columns:minmax(0,24rem)}
main{max-width:none;overflow-wrap:anywhere}
.logo{display:block;max-width:min(12rem,100%);max-height:6rem;margin:0 0 1.5rem}
.framed{padding:.5rem;border:1px solid var(--line);background:#fff}
.rounded{border-radius:1rem}
.text{white-space:pre-line}
bdi{display:inline-block;max-width:100%}
form{margin:1.5rem 0 0}
form+form{margin-top:1rem}
label{display:block;margin:0 0 .375rem;font-weight:600}
input,button{width:100%;min-height:3rem;border-radius:.5rem;font:inherit}
input{padding:.5rem .75rem;border:1px solid var(--dim);background:var(--field);color:inherit}
input[aria-invalid]{border:2px solid var(--bad)}
.code{font-variant-numeric:tabular-nums;letter-spacing:.25em}
button{margin:1rem 0 0;padding:.5rem 1rem;border:1px solid var(--ink);background:var(--ink);color:var(--paper);font-weight:600;cursor:pointer}
button:hover{opacity:.9}
.plain{width:auto;min-height:2.75rem;margin:0;padding:0;border:0;background:none;color:var(--ink);font-weight:400;
text-decoration:underline;text-underline-offset:.2em}
.others{display:flex;flex-wrap:wrap;align-items:center;gap:0 1.5rem;margin-top:1rem}
.others form{margin:0}
.others a{display:inline-flex;align-items:center;min-height:2.75rem;text-underline-offset:.2em}
.error{margin:0 0 1rem;padding:.5rem 0 .5rem .75rem;border-left:4px solid var(--bad);color:var(--bad)}
:focus-visible{outline:3px solid var(--focus);outline-offset:2px}
`
const kind = pageKind({ css, policy: ["img-src 'self' data:"], formAction: "'self'" })

const headers = [
  ['Content-Type', 'text/html; charset=utf-8', 'Content-Security-Policy', kind.policy],
  ['Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff', 'X-Robots-Tag', 'noindex'],
  // browsers send `Origin: null` with the forms of a page whose policy is `no-referrer`
  ['Referrer-Policy', 'same-origin'],
].flat()

/** Longer return paths and addresses are left out. */
const maxToLength = 2048
const maxEmailLength = 254
/** An icon that is empty: browsers do not look for another one. */
const noIcon = 'data:,'

/**
 * The page of a closed site at which visitors log in and out. What the owner and the visitor wrote is text. Without a brand, nothing on the page says what the site is.
 * @param to path of the site that the forms return to; what is none, and a very long one, becomes `/`
 */
export function gatePage(shown: Shown): GatePage {
  return render({ ...shown, state: shownAs(shown.state) })
}

type RenderedState = Extract<GateState, { readonly kind: 'password' | 'email' | 'code' | 'ended' | 'logout' }>

function shownAs(state: GateState): RenderedState {
  if (state.kind === 'members' || state.kind === 'paid') return { ...state, kind: 'email' }
  const isRendered = (one: GateState): one is RenderedState => ['password', 'email', 'code', 'ended', 'logout'].includes(one.kind)
  return isRendered(state) ? state : { kind: 'ended' }
}

interface Shown {
  readonly lang: PageLanguage
  readonly state: GateState
  readonly brand: GateBrand | null
  readonly to: string
}

interface GatePage {
  readonly status: number
  readonly headers: readonly string[]
  readonly body: Buffer
}

function render(shown: Shown & { readonly state: RenderedState }): GatePage {
  const { lang, state, brand } = shown
  const to = shown.to.length <= maxToLength && /^\/(?![/\\])/.test(shown.to) ? shown.to : '/'
  const error = 'error' in state ? state.error : undefined
  const texts = gateTexts[lang]
  const asks = texts[state.kind]
  const heading = brand?.title ?? asks.heading
  const said =
    'error' in state && state.error !== undefined ? `${texts.errorPrefix}${texts.errors[state.error](state.kind)}` : asks.title
  const main = [
    ...logoOf(brand),
    `<h1 dir="auto">${escapeHtml(heading)}</h1>`,
    ...(brand?.description ? [`<p class="text" dir="auto">${escapeHtml(brand.description)}</p>`] : []),
    ...stepOf(state, { lang, to }),
  ]
  const title = brand?.title == null ? said : `${said} – ${brand.title}`
  const body = Buffer.from(kind.html({ lang, title, icon: iconOf(brand), main: main.join('\n') }))
  return { status: state.kind === 'logout' ? 200 : statusOf(error), headers, body }
}

const statusOf = (error: GateError | undefined) => (error === 'wait' ? 429 : error === 'origin' ? 403 : 401)

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

interface Field {
  readonly name: string
  readonly type: string
  readonly attributes: string
}

const fields = {
  password: {
    name: 'password',
    type: 'password',
    attributes: `autocomplete="current-password" maxlength="${2 * maxPasswordLength}"`,
  },
  email: {
    name: 'email',
    type: 'email',
    attributes: `autocomplete="email" inputmode="email" autocapitalize="off" spellcheck="false" maxlength="${maxEmailLength}"`,
  },
  code: {
    name: 'code',
    type: 'text',
    attributes: 'autocomplete="one-time-code" inputmode="numeric" class="code" maxlength="20"',
  },
} as const satisfies Record<string, Field>

function stepOf(state: RenderedState, { lang, to }: { lang: PageLanguage; to: string }): string[] {
  const texts = gateTexts[lang]
  if (state.kind === 'ended') return [`<p>${escapeHtml(texts.ended.hint)}</p>`]
  if (state.kind === 'logout') {
    const { hint, button } = texts.logout
    return [
      `<p>${escapeHtml(hint)}</p>`,
      `<form method="post" action="${gatePaths.logout}"><button>${escapeHtml(button)}</button></form>`,
    ]
  }
  const email = state.kind === 'code' ? state.email.slice(0, maxEmailLength) : ''
  const hidden = hiddenInputs([['to', to], ...(state.kind === 'code' ? codeNames(email, state.challenge) : [])])
  const { hint, label, button } = texts[state.kind]
  const alert = state.error === undefined ? undefined : texts.errors[state.error](state.kind)
  const field = fields[state.kind]
  const described = alert === undefined ? 'hint' : 'error hint'
  return [
    `<p id="hint">${escapeHtml(hint).replace('{email}', () => `<bdi>${escapeHtml(email)}</bdi>`)}</p>`,
    `<form method="post" action="${gatePaths[state.kind]}">`,
    ...(alert === undefined ? [] : [`<p class="error" id="error" role="alert">${escapeHtml(alert)}</p>`]),
    hidden,
    `<label for="field">${escapeHtml(label)}</label>`,
    `<input id="field" name="${field.name}" type="${field.type}" ${field.attributes} aria-describedby="${described}"${isAboutTheField(state.error) ? ' aria-invalid="true"' : ''} required autofocus>`,
    `<button>${escapeHtml(button)}</button>`,
    '</form>',
    ...(state.kind === 'code' ? otherWays({ lang, to, hidden }) : []),
  ]
}

/** What names the code that a form is about: the form that asks for a new one is shown again with them when that is too soon. */
const codeNames = (email: string, challenge: string) => [['email', email] as const, ['challenge', challenge] as const]

/** Whether another answer helps. */
const isAboutTheField = (error: GateError | undefined) => error === 'wrong' || error === 'expired'

/** For those whose code does not arrive. */
function otherWays({ lang, to, hidden }: { lang: PageLanguage; to: string; hidden: string }): string[] {
  const { again, other } = gateTexts[lang].code
  return [
    '<div class="others">',
    `<form method="post" action="${gatePaths.email}">${hidden}<button class="plain">${escapeHtml(again)}</button></form>`,
    `<a href="${escapeHtml(to)}">${escapeHtml(other)}</a>`,
    '</div>',
  ]
}

const hiddenInputs = (values: readonly (readonly [name: string, value: string])[]) =>
  values.map(([name, value]) => `<input type="hidden" name="${name}" value="${escapeHtml(value)}">`).join('')
