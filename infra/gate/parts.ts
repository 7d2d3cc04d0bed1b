import { maxPasswordLength } from '../../core/access.ts'
import { escapeHtml } from '../../core/html.ts'
import { readMemberName } from '../../core/members.ts'
import { messengerTitles } from '../../core/messengers.ts'
import type { PageLanguage } from '../../core/page-language.ts'
import type { GateError, GateState } from './state.ts'
import type { GateTerms } from './terms.ts'
import { gateTexts } from './texts.ts'

/** What one state of the login page is shown with. */
export interface StepOptions {
  readonly lang: PageLanguage
  readonly terms: GateTerms
  /** Whether everybody who asks for a code gets one. */
  readonly isOpenToAll: boolean
  /** The path to which the forms return. */
  readonly to: string
}

export type StateOf<Kind extends GateState['kind']> = Extract<GateState, { readonly kind: Kind }>
/** Lines of HTML. */
export type Html = readonly string[]

/** Longer addresses are cut. */
export const maxEmailLength = 254

/** Why the last form was refused, in words; undefined when it was not. */
export function errorText(state: GateState, { lang, terms }: Pick<StepOptions, 'lang' | 'terms'>): string | undefined {
  if (!('error' in state) || state.error === undefined) return undefined
  const texts = gateTexts[lang].errors[state.error]
  const kind = state.kind === 'register' && !isNameWrong(state, terms) ? 'consent' : state.kind
  return texts[kind] ?? texts.usual
}

/** Whether it is the name that keeps a registration from being taken. */
export const isNameWrong = ({ name }: StateOf<'register'>, terms: GateTerms) => terms.ask_name && !readMemberName(name)

/** Names the messenger of the state. */
export const withMessenger = (text: string, state: GateState) =>
  'provider' in state ? text.replace('{messenger}', messengerTitles[state.provider]) : text

/** @param text instead of the usual one of the state */
export function hintOf(state: GateState, { lang }: StepOptions, text = gateTexts[lang][state.kind].hint): string {
  const email = 'email' in state ? state.email.slice(0, maxEmailLength) : ''
  const html = escapeHtml(withMessenger(text, state)).replace('{email}', () => `<bdi>${escapeHtml(email)}</bdi>`)
  return `<p id="hint">${html}</p>`
}

export const formStart = (path: string) => `<form method="post" action="${path}">`

export const alertOf = (text: string | undefined): Html =>
  text === undefined ? [] : [`<p class="error" id="error" role="alert">${escapeHtml(text)}</p>`]

export const hiddenInputs = (values: readonly (readonly [name: string, value: string])[]) =>
  values.map(([name, value]) => `<input type="hidden" name="${name}" value="${escapeHtml(value)}">`).join('')

/** A form that is only a button. */
export const buttonForm = (path: string, returning: Pick<StepOptions, 'to'> | undefined, text: string): Html => [
  formStart(path),
  ...(returning ? [hiddenInputs([['to', returning.to]])] : []),
  `<button>${escapeHtml(text)}</button>`,
  '</form>',
]

export const linkBack = ({ to }: StepOptions, text: string): Html => [
  `<p class="others"><a href="${escapeHtml(to)}">${escapeHtml(text)}</a></p>`,
]

/** For those who are somebody else as well. */
export const back = (options: StepOptions) => linkBack(options, gateTexts[options.lang].code.other)

export interface Field {
  readonly name: string
  readonly type: string
  readonly attributes: string
}

const emailField: Field = {
  name: 'email',
  type: 'email',
  attributes: `autocomplete="email" inputmode="email" autocapitalize="off" spellcheck="false" maxlength="${maxEmailLength}"`,
}
export const codeField: Field = {
  name: 'code',
  type: 'text',
  attributes: 'autocomplete="one-time-code" inputmode="numeric" class="code" maxlength="20"',
}
const passwordField: Field = {
  name: 'password',
  type: 'password',
  attributes: `autocomplete="current-password" maxlength="${2 * maxPasswordLength}"`,
}
export const fields = { password: passwordField, email: emailField, members: emailField, paid: emailField, code: codeField }

/** Whether another answer helps. */
const isAboutTheField = (error: GateError | undefined) => error === 'wrong' || error === 'expired'

interface Labelled extends Field {
  readonly label: string
  readonly error: GateError | undefined
  readonly isFocused: boolean
}

export function fieldOf({ name, type, attributes, label, error, isFocused }: Labelled): Html {
  const described = error === undefined ? 'hint' : 'error hint'
  const invalid = isAboutTheField(error) ? ' aria-invalid="true"' : ''
  const focus = isFocused ? ' autofocus' : ''
  return [
    `<label for="field">${escapeHtml(label)}</label>`,
    `<input id="field" name="${name}" type="${type}" ${attributes} aria-describedby="${described}"${invalid} required${focus}>`,
  ]
}
