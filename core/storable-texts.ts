// PostgreSQL stores neither a NUL nor half of a surrogate pair. Sources, headers and providers send both: a `package.json` in UTF-16 has a NUL
// after every letter. Each becomes U+FFFD, as in the decoding of invalid UTF-8.

/** The text as PostgreSQL can store it. */
export function storableText(text: string): string {
  if (!text.includes('\0') && text.isWellFormed()) return text
  return text.replaceAll('\0', '\uFFFD').toWellFormed()
}

/** The value as JSON that PostgreSQL can store. */
export function storableJson(value: unknown): string {
  const json = JSON.stringify(value)
  // `JSON.stringify` escapes only halves of pairs as \ud…
  if (!json.includes('\\u0000') && !json.includes('\\ud')) return json
  return json.replace(/\\(?:u0000|ud[0-9a-f]{3}|.)/g, (escaped) => (/^\\u(?:0000|d)/.test(escaped) ? '\\ufffd' : escaped))
}
