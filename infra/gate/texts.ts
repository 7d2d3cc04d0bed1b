import type { PageLanguage } from '../../core/page-language.ts'
import type { GateError, GateState } from './state.ts'
import { english } from './texts-en.ts'
import { russian } from './texts-ru.ts'

interface StepTexts {
  /** Of the window: what the page is about. */
  readonly title: string
  /** Of the page of a site without a title of its own. */
  readonly heading: string
  /** `{email}` is the address of the visitor, `{messenger}` the name of a messenger. */
  readonly hint: string
}

interface FormTexts extends StepTexts {
  readonly label: string
  readonly button: string
}

/** A page whose last form can have been refused. */
export type AskingKind = Extract<GateState, { readonly error?: GateError }>['kind']

/** Why a form was refused: for some pages, and for all others. */
type ErrorTexts = { readonly usual: string } & { readonly [Kind in AskingKind]?: string }

/** The words of the login page. They are the same for addresses that may visit the site and for others. */
export interface GateTexts {
  readonly password: FormTexts
  readonly email: FormTexts
  readonly members: FormTexts
  readonly paid: FormTexts
  readonly code: FormTexts & {
    /** For sites whose visitors register themselves: everybody gets a code. */
    readonly hintForAll: string
    readonly again: string
    readonly other: string
  }
  readonly register: FormTexts
  readonly consent: StepTexts & { readonly button: string }
  readonly pending: StepTexts
  readonly rejected: StepTexts
  readonly blocked: StepTexts
  readonly seats: StepTexts
  /** `{price}` in the button is the amount. */
  readonly pay: StepTexts & { readonly button: string; readonly buttonWithoutPrice: string }
  readonly pay_owner: StepTexts
  readonly paying: StepTexts & { readonly link: string; readonly waiting: string; readonly look: string }
  readonly unpaid: StepTexts & { readonly button: string }
  readonly subscribers: StepTexts & { readonly hintForOne: string; readonly button: string; readonly next: string }
  readonly messenger: FormTexts & { readonly open: string; readonly again: string; readonly back: string }
  readonly stranger: StepTexts & { readonly link: string }
  readonly away: StepTexts & { readonly link: string }
  readonly ended: StepTexts
  readonly logout: StepTexts & { readonly button: string }
  /** `{documents}` are links to the documents of the site. */
  readonly consents: {
    readonly notice: string
    readonly checkbox: string
    readonly noticeWithoutDocuments: string
    readonly checkboxWithoutDocuments: string
  }
  readonly documents: string
  /** Said of links by screen readers. */
  readonly newTab: string
  /** `{price}` is the amount, `{days}` the number of days with their unit. */
  readonly priceForDays: string
  readonly priceForEver: string
  readonly errorPrefix: string
  readonly errors: Readonly<Record<GateError, ErrorTexts>>
}

export const gateTexts: Readonly<Record<PageLanguage, GateTexts>> = { en: english, ru: russian }
