import { createTextFinder } from './find-texts.ts'
import { formsOf, plainForms } from './secret-forms.ts'

const masked = '[masked]'

/**
 * The patterns of secrets, and their replacements. They take linear time: each pattern begins with fixed letters, and an unbounded part
 * after them either ends the pattern or cannot begin it again.
 */
const patterns: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|$)/g, masked],
  // user:password@ in a URL
  [/:\/\/[^\s/?#@:"'`<>]{0,256}:[^\s/?#"'`<>]{1,512}@/g, `://${masked}@`],
  [/(authorization["']?\s{0,3}[:=]\s{0,3}["'`]?(?:bearer|basic|token)\s{1,3})[^\s"'`$<{[]{4,}/gi, `$1${masked}`],
  // may also stand in prose without the header's name; a word of prose holds no digit
  [/\b(bearer|basic)(\s{1,3})(?=[A-Za-z0-9._~+/-]{0,256}[\d=])[A-Za-z0-9._~+/-]{12,}={0,2}/gi, `$1$2${masked}`],
  [/(?<![A-Za-z0-9])(_authToken|_auth|_password)(["']?\s{0,3}[=:]\s{0,3}["']?)(?![$[])[^\s"']{4,}/g, `$1$2${masked}`],
  [/(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}/g, masked],
  [/(?<![A-Za-z0-9])whsec_[A-Za-z0-9+/=_-]{16,}/g, masked],
  [/(?<![A-Za-z0-9])svc_[A-Za-z0-9]{8}_[A-Za-z0-9_-]{43}/g, masked],
  [/(?<![A-Za-z0-9])npm_[A-Za-z0-9]{36,}/g, masked],
  [/(?<![A-Za-z0-9])gh[opsur]_[A-Za-z0-9]{20,}/g, masked],
  [/(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{20,}/g, masked],
  [/(?<![A-Za-z0-9])gl(?:pat|ptt|dt|rt|cbt|soat|ft|agent)-[A-Za-z0-9_.-]{20,}/g, masked],
  [/(?<![A-Za-z0-9])xox[abeprs]-[A-Za-z0-9-]{10,}/g, masked],
  [/(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])/g, masked],
  [/(?<![A-Za-z0-9])[sr]k_(?:live|test)_[A-Za-z0-9]{10,}/g, masked],
  [/(?<![A-Za-z0-9])sk-(?:proj|svcacct|ant)-[A-Za-z0-9_-]{20,}/g, masked],
]

/** The fixed letters with which the patterns begin: most lines hold none of them and need no other pattern. */
const anyBeginning =
  /-----BEGIN |:\/\/|authorization|bearer|basic|_auth|_password|eyJ|whsec_|svc_|npm_|gh[opsur]_|github_pat_|gl[a-z]{2,5}-|xox|AKIA|ASIA|[sr]k_|sk-/i

export interface Masker {
  /** Replaces everything that looks like a secret, and every occurrence of the values, by `[masked]`. */
  readonly mask: (text: string) => string
  /** How many characters at the end of a text may be the beginning of a value. */
  readonly begunAtEnd: (text: string) => number
}

/** @param values of at least 4 characters; they are found in the usual encodings too, and line by line */
export function createMasker(values: readonly string[]): Masker {
  const forms = formsOf(values)
  if (forms.size === 0) return { mask: maskPatterns, begunAtEnd: () => 0 }
  const finder = createTextFinder(forms)
  return {
    mask(text) {
      let shown = ''
      let from = 0
      for (const { start, end } of finder.find(text)) {
        shown += text.slice(from, start) + masked
        from = end
      }
      return maskPatterns(shown + text.slice(from))
    },
    begunAtEnd: (text) => finder.begunAtEnd(text),
  }
}

export const maskSecrets = (text: string, values: readonly string[] = []) => createMasker(values).mask(text)

/** As `maskSecrets` for a short text, without what has to be prepared: of the values only themselves are found. */
export function maskPlainSecrets(text: string, values: readonly string[]): string {
  let shown = text
  for (const form of plainForms(values)) if (form.length <= shown.length) shown = shown.replaceAll(form, masked)
  return maskPatterns(shown)
}

function maskPatterns(text: string): string {
  if (!anyBeginning.test(text)) return text
  let shown = text
  for (const [pattern, replacement] of patterns) shown = shown.replace(pattern, replacement)
  return shown
}

export interface LineMasker {
  /** The line as it may be shown; undefined for a line inside a private key, as the key's first line is replaced by one mark. */
  line(text: string): string | undefined
  /** Masks the beginning of a line that has not ended yet, without the beginning of a value at its end. */
  start(text: string): string
  readonly begunAtEnd: Masker['begunAtEnd']
}

const keyBegins = /-----BEGIN [A-Z ]{0,40}PRIVATE KEY/
const keyEnds = /-----END [A-Z ]{0,40}PRIVATE KEY/
/** A line of a private key: base64, a header, or nothing. A log may have put a prefix in front. */
const keyBody = /^[^A-Za-z0-9]{0,8}(?:[A-Za-z0-9+/=]*|[A-Za-z-]{1,32}: .*)$/
/** A key of 16,384 bits has 200 lines. */
const maxKeyLines = 250

/** A masker for text that arrives line by line, because a private key has many lines. */
export function createLineMasker({ mask, begunAtEnd }: Masker): LineMasker {
  let keyLines = 0
  return {
    line(text) {
      if (keyLines > 0) {
        const last = keyEnds.test(text)
        keyLines = last || !keyBody.test(text.trimEnd()) ? 0 : keyLines - 1
        if (last || keyLines > 0) return undefined
      }
      if (keyBegins.test(text) && !keyEnds.test(text)) keyLines = maxKeyLines
      return mask(text)
    },
    start: (text) => (keyLines > 0 ? '' : mask(text.slice(0, text.length - begunAtEnd(text)))),
    begunAtEnd,
  }
}
