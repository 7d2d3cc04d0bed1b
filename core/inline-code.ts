const maxLength = 300

/** Removes characters that break a line or change its direction. */
export const oneLine = (text: string) =>
  text
    .replaceAll(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]+/gu, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim()

/**
 * Renders untrusted text as one line of Markdown code, so that it cannot become a link, image, mention, reference, emoji or HTML. A pipe
 * is replaced: it would end a table cell even in code, and forges differ in whether a backslash escapes it.
 */
export function inlineCode(text: string): string {
  const line = oneLine(text).slice(0, maxLength).toWellFormed().replaceAll('|', '¦')
  if (line === '') return ''
  const longest = Math.max(0, ...[...line.matchAll(/`+/g)].map(([ticks]) => ticks.length))
  const fence = '`'.repeat(longest + 1)
  return longest === 0 ? fence + line + fence : `${fence} ${line} ${fence}`
}
