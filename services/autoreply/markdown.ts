import createMarkdown, { type Env, type RendererRule, type Token } from 'markdown-it'
import { type FieldText, placeholderAt } from '../../core/autoreply.ts'
import { escapeHtml } from '../../core/html.ts'

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

// a field is a token of its own, so that neither its name nor its value is ever read as Markdown
markdown.inline.ruler.before('text', 'field', (state, silent) => {
  const found = placeholderAt(state.src, state.pos)
  if (!found || state.pos + found.length > state.posMax) return false
  if (!silent) state.push('field', '', 0).content = found.name
  state.pos += found.length
  return true
})
const fieldTextOf = (env: Env | undefined) => (env as { readonly fieldText: FieldText }).fieldText
const rules: Record<string, RendererRule> = {
  field: (tokens, index, _options, env) => escapeHtml(fieldTextOf(env)(tokens[index]?.content ?? '')),
  link_open(tokens, index, options, _env, renderer) {
    tokens[index]?.attrSet('rel', 'nofollow noopener noreferrer')
    return renderer.renderToken(tokens, index, options)
  },
}
Object.assign(markdown.renderer.rules, rules)

/** Renders Markdown with its fields as HTML without a document around it. The values of fields are text. */
export const renderHtml = (body: string, fieldText: FieldText): string => markdown.render(body, { fieldText })

/** Renders Markdown with its fields as plain text that reads like it. */
export function renderText(body: string, fieldText: FieldText): string {
  const lines: string[] = []
  /** The marks before a line, from the outside to the inside. */
  const marks: string[] = []
  let isApart = false
  for (const token of markdown.parse(body, { fieldText })) {
    if (token.type === 'blockquote_open') marks.push('> ')
    if (token.type === 'list_item_open') marks.push(token.info === '' ? '- ' : `${token.info}${token.markup} `)
    if (token.type === 'blockquote_close' || token.type === 'list_item_close') marks.pop()
    if (token.type === 'paragraph_close' && !token.hidden) isApart = true
    if (token.type.endsWith('_list_close')) isApart = true
    if (token.type !== 'inline') continue
    if (isApart) lines.push('')
    isApart = false
    for (const line of inlineText(token.children ?? [], fieldText).split('\n')) {
      lines.push(`${marks.join('')}${line}`.trimEnd())
      // an item has its number on its first line only
      marks.forEach((mark, index) => {
        if (mark !== '> ') marks[index] = ' '.repeat(mark.length)
      })
    }
  }
  return lines.join('\n')
}

function inlineText(tokens: readonly Token[], fieldText: FieldText): string {
  let text = ''
  let link = { href: '', begin: 0 }
  for (const token of tokens) {
    const { type, content } = token
    if (type === 'text' || type === 'text_special') text += content
    if (type === 'field') text += fieldText(content)
    if (type === 'softbreak' || type === 'hardbreak') text += '\n'
    if (type === 'link_open') link = { href: String(token.attrGet('href') ?? ''), begin: text.length }
    if (type === 'link_close' && !isShown(link.href, text.slice(link.begin))) text += ` (${link.href})`
  }
  return text
}

const isShown = (href: string, text: string) => href === text || href === `mailto:${text}`
