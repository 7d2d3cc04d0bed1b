import createMarkdown, { type RendererRule, type Token } from 'markdown-it'
import { type FieldText, placeholder, placeholderAt } from '../../core/autoreply.ts'
import { piecesWithoutLinks } from '../../core/plain-text.ts'

/** Only what is listed here exists: headings, images, code and HTML stay text. Containers nest 20 deep at most. */
const markdown = createMarkdown('zero', { linkify: true, breaks: true }).enable([
  'autolink',
  'blockquote',
  'emphasis',
  'escape',
  'link',
  'linkify',
  'list',
  'newline',
])
// `example.com` in a sentence is not meant as a link
markdown.linkify.set({ fuzzyLink: false })
markdown.validateLink = (url) => /^(?:https?:\/\/[^/]|mailto:)/i.test(url)
// an address is shown as it is written: decoded, a value in it could end it
markdown.normalizeLinkText = (url) => url

// a field is a token of its own, so that neither its name nor its value is ever read as Markdown
markdown.inline.ruler.before('text', 'field', (state, silent) => {
  const found = placeholderAt(state.src, state.pos)
  if (!found || state.pos + found.length > state.posMax) return false
  if (!silent) state.push('field', '', 0).content = found.name
  state.pos += found.length
  return true
})
const rules: Record<string, RendererRule> = {
  link_open(tokens, index, options, _env, renderer) {
    tokens[index]?.attrSet('rel', 'nofollow noopener noreferrer')
    return renderer.renderToken(tokens, index, options)
  },
}
Object.assign(markdown.renderer.rules, rules)

/** An address with fields behind its host, which are no part of the host whatever their values are. */
const addressWithFields =
  /https?:\/\/[^\s/?#@:\\{}<>()[\]"'`]+(?::\d{1,5})?[/?#](?:\{\{[^{}\r\n]{1,64}\}\}|[^\s\\{}<>()[\]"'`*])*/gi

/** Fills the fields of the owner's addresses, percent-encoded. No value is read as Markdown: letters, digits, hyphens and `%` are left. */
function fillAddresses(body: string, fieldText: FieldText): string {
  return body.replace(addressWithFields, (address) =>
    address.replace(placeholder, (_, name: string) =>
      encodeURIComponent(fieldText(name)).replace(/[._!~*'()]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`),
    ),
  )
}

/** The tokens of Markdown, with text in place of its fields: text that is never read as Markdown, and no link. */
function parse(body: string, fieldText: FieldText): Token[] {
  const tokens = markdown.parse(fillAddresses(body, fieldText), {})
  for (const { children } of tokens) if (children) fillFields(children, fieldText)
  return tokens
}

function fillFields(tokens: readonly Token[], fieldText: FieldText): void {
  const pieces = tokens.map(({ type, content }) => {
    if (type === 'field') return { text: fieldText(content), isForeign: true }
    return { text: isBreak(type) ? '\n' : content, isForeign: false }
  })
  for (const [index, text] of piecesWithoutLinks(pieces).entries()) {
    const token = tokens[index]
    if (!token || isBreak(token.type)) continue
    token.content = text
    if (token.type === 'field') token.type = 'text'
  }
}

const isBreak = (type: string) => type === 'softbreak' || type === 'hardbreak'

/** Renders Markdown with its fields as HTML without a document around it. */
export const renderHtml = (body: string, fieldText: FieldText): string =>
  markdown.renderer.render(parse(body, fieldText), markdown.options, {})

/** Renders Markdown with its fields as plain text that reads like it. */
export function renderText(body: string, fieldText: FieldText): string {
  const lines: string[] = []
  /** The marks before a line, from the outside to the inside. */
  const marks: string[] = []
  let isApart = false
  for (const token of parse(body, fieldText)) {
    if (token.type === 'blockquote_open') marks.push('> ')
    if (token.type === 'list_item_open') marks.push(token.info === '' ? '- ' : `${token.info}${token.markup} `)
    if (token.type === 'blockquote_close' || token.type === 'list_item_close') marks.pop()
    if (token.type === 'paragraph_close' && !token.hidden) isApart = true
    if (token.type.endsWith('_list_close')) isApart = true
    if (token.type !== 'inline') continue
    if (isApart) lines.push('')
    isApart = false
    for (const line of inlineText(token.children ?? []).split('\n')) {
      lines.push(`${marks.join('')}${line}`.trimEnd())
      // an item has its number on its first line only
      marks.forEach((mark, index) => {
        if (mark !== '> ') marks[index] = ' '.repeat(mark.length)
      })
    }
  }
  return lines.join('\n')
}

function inlineText(tokens: readonly Token[]): string {
  let text = ''
  let link = { href: '', begin: 0 }
  for (const token of tokens) {
    const { type, content } = token
    if (type === 'text' || type === 'text_special') text += content
    if (isBreak(type)) text += '\n'
    if (type === 'link_open') link = { href: String(token.attrGet('href') ?? ''), begin: text.length }
    if (type === 'link_close' && !isShown(link.href, text.slice(link.begin))) text += ` (${link.href})`
  }
  return text
}

const isShown = (href: string, text: string) => href === text || href === `mailto:${text}`
