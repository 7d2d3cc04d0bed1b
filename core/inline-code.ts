const maxLength = 300

/** Without what breaks a line or turns its direction. */
export const oneLine = (text: string) =>
  text
    .replaceAll(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]+/gu, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim()

/**
 * A text of somebody else as one line of code: no link, image, mention, reference, emoji or HTML can be made of it. A pipe would end the
 * cell of a table, also in code, and whether a backslash saves it depends on the forge.
 */
export function inlineCode(text: string): string {
  const line = oneLine(text).slice(0, maxLength).toWellFormed().replaceAll('|', '¦')
  if (line === '') return ''
  const longest = Math.max(0, ...[...line.matchAll(/`+/g)].map(([ticks]) => ticks.length))
  const fence = '`'.repeat(longest + 1)
  return longest === 0 ? fence + line + fence : `${fence} ${line} ${fence}`
}
