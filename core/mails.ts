/** What a mail says, as plain text and as HTML. */
export interface Letter {
  readonly subject: string
  readonly text: string
  readonly html: string
}

/** Both forms from plain paragraphs: nothing in them is markup, addresses become links. A subject is one line whatever it is made of. */
export function letter(subject: string, paragraphs: readonly string[]): Letter {
  return {
    subject: oneLine(subject).slice(0, 200),
    text: `${paragraphs.join('\n\n')}\n`,
    html: `<!doctype html>\n<html lang="en">\n<body style="font:16px/1.5 system-ui,sans-serif;max-width:36rem">\n${paragraphs.map((text) => `<p>${linked(text)}</p>`).join('\n')}\n</body>\n</html>\n`,
  }
}

const oneLine = (text: string) => text.replace(/[\s\p{Cc}]+/gu, ' ').trim()

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const escaped = (text: string) => text.replace(/[&<>"']/g, (character) => entities[character] ?? '')

function linked(text: string): string {
  const withLinks = escaped(text).replace(/https?:\/\/[^\s<]+[^\s<.,;:!?)]/g, (address) => `<a href="${address}">${address}</a>`)
  return withLinks.replaceAll('\n', '<br>\n')
}

/** An instant as people read it: `21 Nov 2026, 14:05 UTC`. */
export function readable(instant: Date): string {
  const date = instant.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' })
  return `${date}, ${instant.toISOString().slice(11, 16)} UTC`
}
