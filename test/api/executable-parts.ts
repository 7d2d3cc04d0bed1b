import { Parser } from 'htmlparser2'

const inert = new Set([
  'html',
  'head',
  'meta',
  'title',
  'style',
  'body',
  'main',
  'h1',
  'p',
  'ul',
  'li',
  'a',
  'span',
  'bdi',
  'img',
])

/** What of a page could run, load or submit something: elements and attributes besides those of plain text, and links to other schemes. */
export function executableParts(html: string): string[] {
  const found: string[] = []
  const parser = new Parser({
    onopentag(name, attributes) {
      if (!inert.has(name)) found.push(name)
      for (const [attribute, value] of Object.entries(attributes)) {
        if (attribute.startsWith('on') || attribute === 'style') found.push(attribute)
        if ((attribute === 'href' || attribute === 'src') && !/^(?:https?:\/)?\/[^/]/.test(value)) found.push(value)
      }
    },
    onprocessinginstruction: (name) => void (name === '!doctype' || found.push(name)),
    oncomment: (text) => void found.push(text),
  })
  parser.end(html)
  return found
}
