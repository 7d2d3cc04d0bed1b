import { escapeHtml } from './html.ts'

/** The kinds of emails that owners get. */
export type EmailKind =
  | 'subdomain_change'
  | 'domain_live'
  | 'domain_uncertified'
  | 'domain_given_up'
  | 'domain_replaced'
  | 'domain_missing'
  | 'domain_lost'
  | 'project_suspended'

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
}

/** Composes both forms from plain paragraphs: markup in them is escaped, and URLs become links. The subject becomes one line. */
export function composeEmail<Topic extends EmailTopic>(
  topic: Topic,
  subject: string,
  paragraphs: readonly string[],
): Email & Topic {
  return {
    ...topic,
    subject: oneLine(subject).slice(0, 200),
    text: `${paragraphs.join('\n\n')}\n`,
    html: `<!doctype html>\n<html lang="en">\n<body style="font:16px/1.5 system-ui,sans-serif;max-width:36rem">\n${paragraphs.map((text) => `<p>${linked(text)}</p>`).join('\n')}\n</body>\n</html>\n`,
  }
}

const oneLine = (text: string) => text.replace(/[\s\p{Cc}]+/gu, ' ').trim()

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

/** Tells the owner that a change of a site's address was requested. */
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

/** Tells the owner that the operator has suspended the project, or has given another reason. */
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
