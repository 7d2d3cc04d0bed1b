import { escapeHtml } from '../../core/html.ts'
import { type ConsentMode, consentValue, type FormStyle } from '../../core/members.ts'
import { type MessengerName, messengerTitles } from '../../core/messengers.ts'
import { type Price, priceText } from '../../core/money.ts'
import type { PageLanguage } from '../../core/page-language.ts'
import { gateTexts } from './texts.ts'

/** What the owner of a closed site asks of its visitors: a part of the route. */
export interface GateTerms {
  readonly ask_name: boolean
  /** Null for the usual one. */
  readonly name_label: string | null
  readonly consent_mode: ConsentMode
  readonly form_style: FormStyle
  readonly documents: readonly { readonly id: string; readonly title: string; readonly url: string }[]
  /** Null for sites without one. */
  readonly price: (Price & { readonly period_days: number | null }) | null
  readonly channels: readonly { readonly provider: MessengerName; readonly title: string; readonly url: string | null }[]
}

/** The address as browsers write it, in ASCII; undefined unless it is one of the web. */
export function webAddress(url: string | null, protocols: readonly string[] = ['https:']): string | undefined {
  const parsed = url === null ? null : URL.parse(url)
  return parsed !== null && protocols.includes(parsed.protocol) ? parsed.href : undefined
}

/** A link to a page of somebody else, which opens in a new tab. What is no address of the web is shown as text. */
function linkTo({ title, url }: { readonly title: string; readonly url: string | null }, lang: PageLanguage): string {
  const address = webAddress(url)
  const text = escapeHtml(title)
  if (address === undefined) return `<bdi>${text}</bdi>`
  const hint = `<span class="unseen">${escapeHtml(gateTexts[lang].newTab)}</span>`
  return `<a dir="auto" href="${escapeHtml(address)}" target="_blank" rel="noopener noreferrer">${text}${hint}</a>`
}

/** The documents of the site, which everybody may read before logging in. */
export function documentsOf({ documents }: GateTerms, lang: PageLanguage): string[] {
  if (documents.length === 0) return []
  const items = documents.map((one) => `<li>${linkTo(one, lang)}</li>`)
  return [`<ul class="documents" aria-label="${escapeHtml(gateTexts[lang].documents)}">${items.join('')}</ul>`]
}

/** The sentence, or the box to tick, with which members agree to the documents. */
export function consentOf({ documents, consent_mode }: GateTerms, lang: PageLanguage, isMissing: boolean): string[] {
  if (consent_mode === 'none') return []
  const { consents } = gateTexts[lang]
  const text = documents.length > 0 ? consents[consent_mode] : consents[`${consent_mode}WithoutDocuments`]
  const links = new Intl.ListFormat(lang).format(documents.map((one) => linkTo(one, lang)))
  const html = escapeHtml(text).replace('{documents}', () => links)
  if (consent_mode === 'notice') return [`<p class="consent">${html}</p>`]
  const invalid = isMissing ? ' aria-invalid="true" aria-describedby="error"' : ''
  return [
    `<p class="consent box"><input id="consent" name="consent" type="checkbox" value="${escapeHtml(consentValue(documents))}"${invalid} required>`,
    `<label for="consent">${html}</label></p>`,
  ]
}

/** What access costs; nothing for sites without a price. */
export function priceOf({ price }: GateTerms, lang: PageLanguage): string[] {
  if (price === null) return []
  const { priceForDays, priceForEver } = gateTexts[lang]
  const unit = new Intl.NumberFormat(lang, { style: 'unit', unit: 'day', unitDisplay: 'long' })
  const text =
    price.period_days === null ? priceForEver : priceForDays.replace('{days}', () => unit.format(price.period_days ?? 0))
  return [
    `<p class="price">${escapeHtml(text).replace('{price}', () => `<strong>${escapeHtml(priceText(price, lang))}</strong>`)}</p>`,
  ]
}

/** The channels whose subscribers are let in. */
export function channelsOf({ channels }: GateTerms, lang: PageLanguage): string[] {
  if (channels.length === 0) return []
  const items = channels.map((one) => `<li>${linkTo(one, lang)} <span>${messengerTitles[one.provider]}</span></li>`)
  return [`<ul class="channels">${items.join('')}</ul>`]
}
