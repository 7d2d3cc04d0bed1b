import { createFieldText, type RepliedSubmission, replySender, replySubject } from '../../core/autoreply.ts'
import { emailDocument } from '../../core/emails.ts'
import { escapeHtml } from '../../core/html.ts'
import type { DeliveryLink } from './delivery-page.ts'
import { renderHtml, renderText } from './markdown.ts'

/**
 * The reply to a submission, without its recipient.
 * @param link to the files of the site, below the body
 */
export function composeReply(
  { site_name, subject, body, data }: RepliedSubmission,
  platformSender: string,
  link: DeliveryLink | undefined,
) {
  return {
    sender: replySender(site_name, platformSender),
    subject: replySubject(subject, site_name, data),
    text: `${renderText(body, createFieldText(data))}\n${link ? linkText(link) : ''}`,
    html: emailDocument(renderHtml(body, createFieldText(data)) + (link ? linkHtml(link) : '')),
  }
}

const linkText = ({ href, title }: DeliveryLink) => `\n${title === null ? '' : `${title}: `}${href}\n`
const linkHtml = ({ href, title }: DeliveryLink) => `<p><a href="${escapeHtml(href)}">${escapeHtml(title ?? href)}</a></p>\n`
