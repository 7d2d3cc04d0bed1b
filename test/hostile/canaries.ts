import { createTextFinder } from '../../core/find-texts.ts'
import { formsOf } from '../../core/secret-forms.ts'

/**
 * `credential`: nobody may find it. `link`: the secret part of a link to files, which may stand in the email that it was sent with. `code`: six
 * digits, which nobody may find. `visitor`: what visitors said of themselves; only the tables hold it.
 */
type Kind = 'credential' | 'link' | 'code' | 'visitor'
const kinds: readonly Kind[] = ['credential', 'link', 'code', 'visitor']

/** The secrets that a test has used, by name. */
export interface Canaries {
  /** Every secret, for the test of the search itself. */
  readonly all: readonly { readonly name: string; readonly kind: Kind; readonly value: string }[]
  /** Answers the secret. */
  add(kind: Kind, name: string, value: string): string
  /** The names of the secrets that the text contains: as they are, or as they stand in JSON, in URLs and in base64. */
  leaksIn(text: string, wanted?: readonly Kind[]): string[]
}

export function createCanaries(): Canaries {
  const all: { name: string; kind: Kind; value: string; isIn: (text: string) => boolean }[] = []
  let any: ReturnType<typeof createTextFinder> | undefined
  return {
    all,
    add(kind, name, value) {
      if (value.length < (kind === 'code' ? 6 : 12)) throw new Error(`the ${name} is too short to be searched for`)
      all.push({ name, kind, value, isIn: kind === 'code' ? finderOfCode(value) : finderOfText(value) })
      any = undefined
      return value
    },
    leaksIn(text, wanted = kinds) {
      any ??= createTextFinder(formsOf(all.map(({ value }) => value)))
      if (any.find(text).length === 0) return []
      return all.filter(({ kind, isIn }) => wanted.includes(kind) && isIn(text)).map(({ name }) => name)
    },
  }
}

function finderOfText(value: string) {
  const forms = [...formsOf([value])]
  return (text: string) => forms.some((form) => text.includes(form))
}

/** Six digits are also a part of many numbers and ids. */
function finderOfCode(code: string) {
  const base64 = btoa(code)
  const alone = new RegExp(`(?<![\\w.-])${code}(?![\\w-])`)
  return (text: string) => alone.test(text) || text.includes(base64)
}

/** All texts in a value, whatever its form; bytes count as text. */
export function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (value instanceof Uint8Array) return [Buffer.from(value).toString()]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) => [name, ...textsIn(member)])
}
