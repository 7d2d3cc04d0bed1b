import { escapeHtml } from './html.ts'
import type { PageLanguage } from './page-language.ts'

/** The kinds of emails that owners get, and those of the codes for visitors and the news for members. */
export type EmailKind =
  | 'subdomain_change'
  | 'domain_live'
  | 'domain_uncertified'
  | 'domain_given_up'
  | 'domain_replaced'
  | 'domain_missing'
  | 'domain_lost'
  | 'project_suspended'
  | 'form_submissions'
  | 'deploy_failed'
  | 'certificate_failing'
  | 'access_code'
  | 'membership'

/** The HTML document of an email. */
export const emailDocument = (content: string, attributes = '') =>
  `<!doctype html>\n<html${attributes}>\n<body style="font:16px/1.5 system-ui,sans-serif;max-width:36rem">\n${content}\n</body>\n</html>\n`

export interface EmailTopic {
  readonly kind: EmailKind
  /** The site, the domain or the project that it is about. */
  readonly about: string
}

/** An email without its recipient, as plain text and as HTML. */
export interface Email extends EmailTopic {
  readonly subject: string
  readonly text: string
  readonly html: string
  /** A plain address that a reply goes to, instead of the sender. */
  readonly reply_to?: string | undefined
}

/** A part of an email that is more than a paragraph, in both forms; its HTML is escaped already. */
export interface EmailPart {
  readonly text: string
  readonly html: string
}

/** Composes both forms from paragraphs and other parts: markup in paragraphs is escaped, and URLs become links. The subject becomes one line. */
export function composeEmail<Topic extends EmailTopic>(
  topic: Topic,
  subject: string,
  parts: readonly (string | EmailPart)[],
  lang: PageLanguage = 'en',
): Email & Topic {
  const composed = parts.map((part) => (typeof part === 'string' ? { text: part, html: `<p>${linked(part)}</p>` } : part))
  return {
    ...topic,
    subject: oneLine(subject).slice(0, 200).toWellFormed(),
    text: `${composed.map(({ text }) => text).join('\n\n')}\n`,
    html: emailDocument(composed.map(({ html }) => html).join('\n'), ` lang="${lang}"`),
  }
}

/**
 * A dot-atom of RFC 5321 and a domain of at least two labels in ASCII, the last one beginning with a letter: a single label, or an IP address, is a
 * host of the mail server's own network.
 */
export const plainAddress =
  /^[A-Za-z0-9_%+'-]+(?:\.[A-Za-z0-9_%+'-]+)*@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z][A-Za-z0-9-]{0,61}[A-Za-z0-9]$/
export const maxAddressLength = 254
const maxLocalLength = 64
const ownHost = /[@.]localhost$/i

/**
 * Whether it is one plain address of the internet, to which emails may be sent; the only rule for addresses. A quoted or commented one, or a list,
 * could mean another recipient than it seems.
 */
export const isPlainAddress = (text: string) =>
  text.length <= maxAddressLength && text.indexOf('@') <= maxLocalLength && plainAddress.test(text) && !ownHost.test(text)

/** `Name <address>` or an address, in its parts. */
export function senderParts(sender: string): { readonly name: string; readonly address: string } {
  const begin = sender.trimEnd().endsWith('>') ? sender.lastIndexOf('<') : -1
  if (begin < 0) return { name: '', address: sender.trim() }
  const name = sender
    .slice(0, begin)
    .trim()
    .replace(/^"(.*)"$/, '$1')
  return { name, address: sender.slice(begin + 1, sender.lastIndexOf('>')).trim() }
}

export const oneLine = (text: string) => text.replace(/[\s\p{Cc}]+/gu, ' ').trim()

function linked(text: string): string {
  const withLinks = escapeHtml(text).replace(
    /https?:\/\/[^\s<]+[^\s<.,;:!?)]/g,
    (address) => `<a href="${address}">${address}</a>`,
  )
  return withLinks.replaceAll('\n', '<br>\n')
}

/** Formats an instant for people: `21 Nov 2026, 14:05 UTC`. */
export function readable(instant: Date): string {
  const date = instant.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' })
  return `${date}, ${instant.toISOString().slice(11, 16)} UTC`
}

/** Informs the owner that a change of a site's address was requested. */
export function subdomainChangeEmail(change: {
  readonly site_id: string
  readonly site_name: string
  readonly old_url: string
  readonly new_url: string
  readonly switch_at: Date
}): Email {
  const { site_id, site_name, old_url, new_url, switch_at } = change
  return composeEmail({ kind: 'subdomain_change', about: site_id }, `${site_name} moves to ${new_url}`, [
    `The site ${oneLine(site_name)} gets another address on ${readable(switch_at)}.`,
    `Now: ${old_url}\nThen: ${new_url}`,
    `The new address is reserved for the site already. After the change the old one leads to it for 30 days.`,
    `To keep the old address, cancel the change before then: DELETE /api/v1/sites/${site_id}/subdomain-change, or the tool cancel_site_subdomain_change. If nobody of your project asked for this change, cancel it and replace the keys of the project.`,
  ])
}

/** Informs the owner that the operator has suspended the project, or has given another reason. */
export const suspendedEmail = (project: {
  readonly id: string
  readonly name: string
  readonly suspended_reason: string | null
}): Email =>
  composeEmail({ kind: 'project_suspended', about: project.id }, `${project.name} is suspended`, [
    `The operator of the platform has suspended the project ${oneLine(project.name)}. Its sites answer visitors with a temporarily-unavailable page, and nothing can be published. Nothing was deleted.`,
    project.suspended_reason === null
      ? 'No reason was given; ask the operator.'
      : `The reason: ${oneLine(project.suspended_reason)}`,
  ])

const maxErrorLength = 2000

/** Informs the owner that a deploy which was to be published has failed. */
export const deployFailedEmail = (deploy: {
  readonly id: string
  readonly site_id: string
  readonly site_name: string
  readonly error: string
}): Email => {
  const { id, site_id, site_name, error } = deploy
  const topic = { kind: 'deploy_failed', about: site_id } as const
  return composeEmail(topic, `A deploy of ${site_name} has failed`, [
    `A deploy of the site ${oneLine(site_name)} has failed. Visitors still get what was live before.`,
    `The reason:\n${error.trim().slice(0, maxErrorLength).toWellFormed()}`,
    `GET /api/v1/deploys/${id}, or the tool get_deploy, shows the deploy.`,
  ])
}
