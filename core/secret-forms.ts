/** Shorter ones would mask half of the text. */
const minLength = 4
/** Of longer secrets, the forms that are unusual for their length are left out: all forms together have to fit into memory. */
const maxInEveryForm = 4096
/** Columns at which `base64` and PEM break their lines. */
const base64Columns = [76, 64]

/**
 * The forms in which a secret may stand in one line of text: itself, line by line; as in JSON and in URLs; in base64, also as a part of
 * something longer.
 */
export function formsOf(secret: string): string[] {
  if (secret.length < minLength) return []
  const lines = secret.split(/[\r\n]/).map((line) => line.trim())
  const forms = [...lines.flatMap(formsOfLine), ...base64Forms(secret.toWellFormed())]
  return [...new Set(forms)].filter((form) => form.length >= minLength)
}

function formsOfLine(line: string): string[] {
  if (line.length < minLength) return []
  const encoded = encodeURIComponent(line.toWellFormed())
  const strict = encoded.replace(/[!'()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`)
  const inUrls = [encoded, strict, encodeURI(line.toWellFormed()), encoded.replaceAll('%2F', '/')]
  const isShort = line.length <= maxInEveryForm
  return [
    line,
    // logs are without control characters
    line.replace(/[^\P{Cc}\t]/gu, ''),
    JSON.stringify(line).slice(1, -1),
    encoded,
    ...(isShort
      ? inUrls.flatMap((form) => [form, form.replaceAll('%20', '+')]).flatMap((form) => [form, withSmallDigits(form)])
      : []),
  ]
}

const withSmallDigits = (encoded: string) => encoded.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())

function base64Forms(secret: string): string[] {
  const bytes = new TextEncoder().encode(secret)
  const whole = base64(bytes)
  const broken = base64Columns.flatMap((columns) => (whole.length > columns ? pieces(whole, columns) : []))
  if (secret.length > maxInEveryForm) return [whole, ...broken]
  // of a longer text that holds it, by where it begins in a group of three bytes
  const inside = [0, 1, 2].map((before) => {
    const shifted = new Uint8Array(before + bytes.length)
    shifted.set(bytes, before)
    return base64(shifted).slice(Math.ceil((before * 8) / 6), Math.floor((shifted.length * 8) / 6))
  })
  const forms = [whole, ...broken, ...inside]
  return [
    ...forms,
    ...forms.map((form) =>
      form
        .replaceAll('+', '-')
        .replaceAll('/', '_')
        .replace(/={1,2}$/, ''),
    ),
  ]
}

function base64(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes) text += String.fromCharCode(byte)
  return btoa(text)
}

function pieces(text: string, length: number): string[] {
  return Array.from({ length: Math.ceil(text.length / length) }, (_, at) => text.slice(at * length, (at + 1) * length))
}
