/** `**`, a literal name, or a name with `*` and `?`, where `end` is the text after the last of them. */
export type PatternPart =
  | { readonly kind: 'folders' }
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'wild'; readonly form: string; readonly end: string }

export const anyFolders: PatternPart = { kind: 'folders' }

/** How many steps matching may still take. */
export interface Steps {
  left: number
}

/** Parses one segment of a pattern. */
export function patternPart(name: string): PatternPart {
  if (name === '**') return anyFolders
  const lastWild = Math.max(name.lastIndexOf('*'), name.lastIndexOf('?'))
  return lastWild < 0 ? { kind: 'name', name } : { kind: 'wild', form: name, end: name.slice(lastWild + 1) }
}

/** Whether the segments of a path match: `*` and `?` stay within a name, `**` spans any number of folders. False when the steps are used up. */
export function matchesParts(parts: readonly PatternPart[], names: readonly string[], steps: Steps): boolean {
  const isName = (part: PatternPart, name: string) =>
    part.kind === 'name'
      ? part.name === name
      : part.kind === 'wild' && name.endsWith(part.end) && matchesName(part.form, name, steps)
  return wildcard(parts, names, (part) => part.kind === 'folders', isName, steps)
}

const matchesName = (form: string, name: string, steps: Steps) =>
  wildcard(
    form,
    name,
    (part) => part === '*',
    (part, character) => part === '?' || part === character,
    steps,
  )

interface Sequence<Item> {
  readonly length: number
  readonly [index: number]: Item
}

/** Backtracks to the last star only, so that it takes at most the product of both lengths; false when the steps are used up. */
function wildcard<Part, Item>(
  pattern: Sequence<Part>,
  items: Sequence<Item>,
  isStar: (part: Part) => boolean,
  isEqual: (part: Part, item: Item) => boolean,
  steps: Steps,
): boolean {
  let [at, lastStar, retryFrom] = [0, -1, 0]
  for (let index = 0; index < items.length; ) {
    if (--steps.left <= 0) return false
    const [part, item] = [pattern[at], items[index] as Item]
    if (part !== undefined && isStar(part)) {
      lastStar = at++
      retryFrom = index
    } else if (part !== undefined && isEqual(part, item)) {
      at++
      index++
    } else if (lastStar >= 0) {
      at = lastStar + 1
      index = ++retryFrom
    } else return false
  }
  while (at < pattern.length && isStar(pattern[at] as Part)) at++
  return at === pattern.length
}
