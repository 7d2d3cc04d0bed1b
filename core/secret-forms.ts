/** Shorter ones would mask half of the text. */
const minLength = 4
/** Of all unusual forms together: a search for a million characters would take seconds and a quarter of a gigabyte to prepare. */
const maxUnusualLength = 256 * 1024
/** Columns at which `base64` and PEM break their lines. */
const base64Columns = [76, 64]

/**
 * The forms in which secrets may stand in one line of text: themselves, line by line; as in JSON and in URLs; in base64. Where there is room,
 * also in other alphabets of these encodings, in broken lines, and as a part of something longer in base64.
 */
export function formsOf(secrets: readonly string[]): Set<string> {
  const long = secrets.filter((secret) => secret.length >= minLength).map(encodeSecret)
  const forms = new Set(long.flatMap(usualForms).filter((form) => form.length >= minLength))
  let room = maxUnusualLength
  for (const secret of long) {
    // the forms of one secret are rarely longer than fifty of it
    if (secret.text.length > room) continue
    for (const form of unusualForms(secret)) {
      if (form.length < minLength || form.length > room || forms.has(form)) continue
      forms.add(form)
      room -= form.length
    }
  }
  return forms
}

/** A secret with what most of its forms are made of. */
interface EncodedSecret {
  readonly text: string
  readonly bytes: Uint8Array
  readonly inBase64: string
}

function encodeSecret(text: string): EncodedSecret {
  const bytes = new TextEncoder().encode(text)
  return { text, bytes, inBase64: base64(bytes) }
}

const linesOf = (secret: string) =>
  secret
    .split(/[\r\n]/)
    .map((line) => line.trim())
    .filter((line) => line.length >= minLength)

/** The secrets themselves, line by line. */
export const plainForms = (secrets: readonly string[]): Set<string> => new Set(secrets.flatMap(linesOf))

function usualForms({ text, inBase64 }: EncodedSecret): string[] {
  const ofLines = linesOf(text).flatMap((line) => [
    line,
    // logs are without control characters
    line.replace(/[^\P{Cc}\t]/gu, ''),
    JSON.stringify(line).slice(1, -1),
    encodeURIComponent(line.toWellFormed()),
  ])
  return [...ofLines, inBase64]
}

function unusualForms({ text, bytes, inBase64: whole }: EncodedSecret): string[] {
  const broken = base64Columns.flatMap((columns) => (whole.length > columns ? pieces(whole, columns) : []))
  // of a longer text that holds it, by where it begins in a group of three bytes
  const inside = [1, 2].map((before) => {
    const shifted = new Uint8Array(before + bytes.length)
    shifted.set(bytes, before)
    return base64(shifted).slice(Math.ceil((before * 8) / 6), Math.floor((shifted.length * 8) / 6))
  })
  const all = [whole, whole.slice(0, Math.floor((bytes.length * 8) / 6)), ...inside, ...broken]
  return [...all, ...all.map(urlAlphabet), ...linesOf(text).flatMap(formsInUrls)]
}

function formsInUrls(line: string): string[] {
  const encoded = encodeURIComponent(line.toWellFormed())
  const strict = encoded.replace(/[!'()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`)
  const all = [encoded, strict, encodeURI(line.toWellFormed()), encoded.replaceAll('%2F', '/')]
  return all.flatMap((form) => [form, form.replaceAll('%20', '+')]).flatMap((form) => [form, withSmallDigits(form)])
}

const withSmallDigits = (encoded: string) => encoded.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())

const urlAlphabet = (encoded: string) =>
  encoded
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replace(/={1,2}$/, '')

function base64(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes) text += String.fromCharCode(byte)
  return btoa(text)
}

function pieces(text: string, length: number): string[] {
  return Array.from({ length: Math.ceil(text.length / length) }, (_, at) => text.slice(at * length, (at + 1) * length))
}
