import { escapeHtml } from '../../core/html.ts'
import { maxMemberNameLength } from '../../core/members.ts'
import { messengerNames, messengerTitles } from '../../core/messengers.ts'
import { priceText } from '../../core/money.ts'
import { gatePaths } from '../../core/visits.ts'
import {
  alertOf,
  back,
  buttonForm,
  codeField,
  errorText,
  type Field,
  fieldOf,
  fields,
  formStart,
  type Html,
  hiddenInputs,
  hintOf,
  isNameWrong,
  linkBack,
  maxEmailLength,
  type StateOf,
  type StepOptions,
} from './parts.ts'
import type { GateState } from './state.ts'
import { channelsOf, consentOf, priceOf, webAddress } from './terms.ts'
import { gateTexts } from './texts.ts'

type Kind = GateState['kind']

/** What differs between the states of the login page. */
const steps: { readonly [K in Kind]: (state: StateOf<K>, options: StepOptions) => Html } = {
  password: askingOf,
  email: askingOf,
  members: askingOf,
  paid: askingOf,
  code: askingOf,
  register: registerOf,
  consent: consentStep,
  pending: endOf,
  rejected: endOf,
  blocked: endOf,
  seats: endOf,
  pay: payOf,
  pay_owner: (state, options) => [...priceOf(options.terms, options.lang), ...endOf(state, options)],
  paying: payingOf,
  unpaid: (state, options) => [
    hintOf(state, options),
    ...buttonForm(gatePaths.pay, options, gateTexts[options.lang].unpaid.button),
    ...back(options),
  ],
  subscribers: subscribersOf,
  messenger: messengerOf,
  stranger: (state, options) => [
    hintOf(state, options),
    ...channelsOf(options.terms, options.lang),
    ...linkBack(options, gateTexts[options.lang].stranger.link),
  ],
  away: (state, options) => [hintOf(state, options), ...linkBack(options, gateTexts[options.lang].away.link)],
  ended: (state, options) => [hintOf(state, options)],
  logout: (state, options) => [
    hintOf(state, options),
    ...buttonForm(gatePaths.logout, undefined, gateTexts[options.lang].logout.button),
  ],
}

/** The part of the login page that differs between its states, as HTML. */
export const stepOf = <K extends Kind>(state: StateOf<K> & { readonly kind: K }, options: StepOptions): Html =>
  steps[state.kind](state, options)

/** A page that says what became of a registration. */
function endOf(state: GateState, options: StepOptions): Html {
  return [hintOf(state, options), ...back(options)]
}

/** The pages that ask for one thing. */
function askingOf(state: StateOf<'password' | 'email' | 'members' | 'paid' | 'code'>, options: StepOptions): Html {
  const { lang, to, terms } = options
  const texts = gateTexts[lang]
  const { label, button } = texts[state.kind]
  const isCode = state.kind === 'code'
  const isForMembers = state.kind === 'members' || state.kind === 'paid'
  const path = gatePaths[isForMembers ? 'email' : state.kind]
  const hidden = hiddenInputs([['to', to], ...(isCode ? codeNames(state) : [])])
  return [
    ...(state.kind === 'paid' ? priceOf(terms, lang) : []),
    hintOf(state, options, isCode && options.isOpenToAll ? texts.code.hintForAll : undefined),
    formStart(path),
    ...alertOf(errorText(state, options)),
    hidden,
    ...fieldOf({ ...fields[state.kind], label, error: state.error, isFocused: true }),
    // who has nothing to tick, and no name to enter, is registered with the code
    ...(isForMembers && terms.consent_mode === 'notice' ? consentOf(terms, lang, false) : []),
    `<button>${escapeHtml(button)}</button>`,
    '</form>',
    ...(isCode ? otherWays(gatePaths.email, hidden, { ...texts.code, to }) : []),
  ]
}

/** What names the code that a form is about: the form that asks for a new one is shown again with them when that is too soon. */
const codeNames = ({ email, challenge }: StateOf<'code'>) =>
  [
    ['email', email.slice(0, maxEmailLength)],
    ['challenge', challenge],
  ] as const

/** For those whose code does not arrive. */
const otherWays = (path: string, hidden: string, { again, other, to }: { again: string; other: string; to: string }): Html => [
  '<div class="others">',
  `${formStart(path)}${hidden}<button class="plain">${escapeHtml(again)}</button></form>`,
  `<a href="${escapeHtml(to)}">${escapeHtml(other)}</a>`,
  '</div>',
]

function registerOf(state: StateOf<'register'>, options: StepOptions): Html {
  const { lang, to, terms } = options
  const { label, button } = gateTexts[lang].register
  const { error } = state
  const isNameInvalid = error === 'wrong' && isNameWrong(state, terms)
  const name: Field = {
    name: 'name',
    type: 'text',
    attributes: `dir="auto" autocomplete="name" maxlength="${maxMemberNameLength}" value="${escapeHtml(state.name.slice(0, maxMemberNameLength))}"`,
  }
  return [
    hintOf(state, options),
    formStart(gatePaths.register),
    ...alertOf(errorText(state, options)),
    hiddenInputs([['to', to]]),
    ...(terms.ask_name
      ? fieldOf({ ...name, label: terms.name_label ?? label, error: isNameInvalid ? error : undefined, isFocused: true })
      : []),
    ...consentOf(terms, lang, error === 'wrong' && !isNameInvalid),
    `<button>${escapeHtml(button)}</button>`,
    '</form>',
    ...back(options),
  ]
}

function consentStep(state: StateOf<'consent'>, options: StepOptions): Html {
  return [
    hintOf(state, options),
    formStart(gatePaths.consent),
    ...alertOf(errorText(state, options)),
    hiddenInputs([['to', options.to]]),
    ...consentOf(options.terms, options.lang, state.error === 'wrong'),
    `<button>${escapeHtml(gateTexts[options.lang].consent.button)}</button>`,
    '</form>',
  ]
}

function payOf(state: StateOf<'pay'>, options: StepOptions): Html {
  const { lang, terms } = options
  const { button, buttonWithoutPrice } = gateTexts[lang].pay
  const { price } = terms
  const text = price === null ? buttonWithoutPrice : button.replace('{price}', () => priceText(price, lang))
  const [start = '', ...rest] = buttonForm(gatePaths.pay, options, text)
  return [
    ...priceOf(terms, lang),
    hintOf(state, options),
    start,
    ...alertOf(errorText(state, options)),
    ...rest,
    ...back(options),
  ]
}

/** The page renews itself (`gatePage`); the links are for browsers that do not. */
function payingOf(state: StateOf<'paying'>, options: StepOptions): Html {
  const { link, waiting, look } = gateTexts[options.lang].paying
  const address = providerAddress(state.url)
  const [hint, href, text] =
    address === undefined ? [hintOf(state, options, waiting), gatePaths.payment, look] : [hintOf(state, options), address, link]
  return [hint, `<p><a class="button" href="${escapeHtml(href)}">${escapeHtml(text)}</a></p>`]
}

/** Of a page that the provider, or this installation, has named; the installation may be one without https. */
export const providerAddress = (url: string | null) => webAddress(url, ['https:', 'http:'])

function subscribersOf(state: StateOf<'subscribers'>, options: StepOptions): Html {
  const { lang, to, terms } = options
  const { hintForOne, next, button } = gateTexts[lang].subscribers
  const messengers = messengerNames.filter((name) => terms.channels.some(({ provider }) => provider === name))
  return [
    hintOf(state, options, terms.channels.length === 1 ? hintForOne : undefined),
    ...channelsOf(terms, lang),
    `<p>${escapeHtml(next)}</p>`,
    ...alertOf(errorText(state, options)),
    ...messengers.flatMap((name) => [
      formStart(gatePaths.messenger),
      hiddenInputs([
        ['to', to],
        ['provider', name],
      ]),
      `<button>${escapeHtml(button.replace('{messenger}', messengerTitles[name]))}</button>`,
      '</form>',
    ]),
  ]
}

function messengerOf(state: StateOf<'messenger'>, options: StepOptions): Html {
  const { lang, to } = options
  const { open, label, button, again, back: other } = gateTexts[lang].messenger
  const { error, provider, challenge } = state
  const address = webAddress(state.url, ['https:', 'http:'])
  const text = escapeHtml(open.replace('{messenger}', messengerTitles[provider]))
  const unseen = `<span class="unseen">${escapeHtml(gateTexts[lang].newTab)}</span>`
  const returning = [
    ['to', to],
    ['provider', provider],
  ] as const
  return [
    hintOf(state, options),
    ...(address === undefined
      ? []
      : [
          `<p><a class="button second" href="${escapeHtml(address)}" target="_blank" rel="noopener noreferrer">${text}${unseen}</a></p>`,
        ]),
    formStart(gatePaths.messengerCode),
    ...alertOf(errorText(state, options)),
    hiddenInputs([...returning, ['challenge', challenge]]),
    // those who have not opened the bot yet begin with the link above
    ...fieldOf({ ...codeField, label, error, isFocused: error !== undefined }),
    `<button>${escapeHtml(button)}</button>`,
    '</form>',
    ...otherWays(gatePaths.messenger, hiddenInputs(returning), { again, other, to }),
  ]
}
