import { replyAddress } from './autoreply.ts'
import { composeEmail, type Email, type EmailPart, isPlainAddress, oneLine, readable } from './emails.ts'
import { type FieldValue, fieldText, type SubmissionData } from './forms.ts'
import { escapeHtml } from './html.ts'
import { withoutInvisible, withoutLinks } from './plain-text.ts'

// The emails to the owner of a site about form submissions. What visitors wrote is text in them, and never becomes a link, a header or markup, but
// for a value that is an email address and nothing else: the owner may want to answer.

/** A longer pause between two digests is never made. */
const maxPauseFactor = 6

/** How long submissions are gathered after so many emails, at least 1: the pauses double, up to six times the first one. */
export const digestPauseMs = (emails: number, firstPauseMs: number) =>
  firstPauseMs * Math.min(maxPauseFactor, 2 ** Math.min(emails - 1, 10))

/** Emails about form submissions that the owner of a project gets in any hour; what comes over this waits for the next one. */
export const maxFormEmailsPerHour = 60
/** Without emails, a site makes one notification about its submissions in this time. */
export const formNotificationPauseMs = 3_600_000

/** The newest submissions that a digest lists. */
export const maxListedSubmissions = 20

const cut = '…'
/** How much of a submission is shown, in characters. */
const whole = { fields: 30, name: 100, value: 5000, values: 20_000, lines: 200 }
const inShort = { fields: 8, name: 40, value: 200, values: 800, lines: 3 }

interface Site {
  readonly id: string
  readonly name: string
  readonly url: string
}

export interface ReceivedSubmission {
  readonly id: string
  readonly data: SubmissionData
  readonly created_at: Date
}

/** Words the subject of an email, and the title of a notification, about so many submissions. */
export const submissionsTitle = (count: number, siteName: string) =>
  `${count === 1 ? 'A new form submission' : `${count} new form submissions`} on ${oneLine(siteName)}`

/**
 * Composes an email about submissions to one site.
 * @param count how many there are
 * @param newest at least one of them and at most {@link maxListedSubmissions}, newest first
 */
export function submissionsEmail(
  site: Site,
  count: number,
  newest: readonly [ReceivedSubmission, ...ReceivedSubmission[]],
): Email & { readonly kind: 'form_submissions' } {
  const topic = { kind: 'form_submissions', about: site.id } as const
  const subject = submissionsTitle(count, site.name)
  const name = oneLine(site.name)
  const inbox = `GET /api/v1/forms/submissions?site=${site.id}, or the tool get_form_submissions`
  if (count === 1) {
    const [{ id, data, created_at }] = newest
    const fields = fieldsPart(data, whole)
    const intro = `A visitor of your site ${name} (${site.url}) has submitted a form on ${readable(created_at)}:`
    const cutNote = fields.isCut ? ['The submission is longer than an email shows; the whole of it is in the inbox.'] : []
    const end = `It is in the inbox of your project: ${inbox}. Its id is ${id}.`
    return { ...composeEmail(topic, subject, [intro, fields, ...cutNote, end]), reply_to: replyAddress(data, 'email') }
  }
  const listed = newest.length < count ? `The newest ${newest.length} of them, in short:` : 'In short:'
  const parts = newest.flatMap(({ data, created_at }) => [readable(created_at), fieldsPart(data, inShort)])
  return composeEmail(topic, subject, [
    `Visitors of your site ${name} (${site.url}) have submitted ${count} forms since the last email.`,
    listed,
    ...parts,
    `All of them are in the inbox of your project: ${inbox}.`,
  ])
}

/** Shows the fields of a submission; each line of a value is indented, so that none looks like a line of the email. */
function fieldsPart(data: SubmissionData, limits: typeof whole): EmailPart & { readonly isCut: boolean } {
  const entries = Object.entries(data)
  let isCut = entries.length > limits.fields
  let left = limits.values
  const shorten = (text: string, length: number): string => {
    if (text.length <= length) return text
    isCut = true
    return `${text.slice(0, length).toWellFormed()}${cut}`
  }
  const texts: string[] = []
  const items: string[] = []
  for (const [rawName, rawValue] of entries.slice(0, limits.fields)) {
    const name = shorten(withoutLinks(oneLine(visible(rawName))), limits.name)
    const lines = shorten(valueText(rawValue), Math.min(limits.value, left)).split('\n')
    if (lines.length > limits.lines) {
      isCut = true
      lines.splice(limits.lines, Number.POSITIVE_INFINITY, cut)
    }
    const value = lines.join('\n')
    left -= Math.min(value.length, left)
    texts.push(`${name}:\n${lines.map((line) => `    ${line}`).join('\n')}`)
    items.push(
      `<dt style="color:#666">${escapeHtml(name)}</dt>\n<dd style="margin:0 0 1em;white-space:pre-wrap">${escapeHtml(value)}</dd>`,
    )
  }
  if (entries.length === 0) return { text: '    (no fields)', html: '<p>(no fields)</p>', isCut }
  return { text: texts.join('\n'), html: `<dl>\n${items.join('\n')}\n</dl>`, isCut }
}

function valueText(value: FieldValue): string {
  const text = visible(fieldText(value).replaceAll(/\r\n?/g, '\n')).trim()
  return isPlainAddress(text) ? text : withoutLinks(text)
}

/** Without control characters besides tabs and new lines, and without characters that cannot be seen. */
const visible = (text: string) => withoutInvisible(text.replaceAll(/(?![\n\t])[\p{Cc}\u2028\u2029]/gu, ''))
