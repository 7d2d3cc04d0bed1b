import { type AST, RegExpParser, visitRegExpAST } from '@eslint-community/regexpp'

export interface HostileText {
  readonly before: string
  /** What is repeated; never empty. */
  readonly unit: string
  readonly after: string
}

/** Characters to look for a member of a class among: those that people and formats use, and a few from further away. */
const candidates =
  'aAfFzZ0195_-./:;,=+ \t\r\n"\'`<>()[]{}@#%&*?!$^|~\\\u0000\u0001\u0085\u0090\u00a0\u00e9\u2028\u3042\ufeff\ufffd'.split('')
/** What a pattern fails on, or ends at. */
const ends = ['', '\u0001', '\n\u0001']
const maxUnits = 16
const maxBefores = 3
/** Some patterns take these for the end of a line, others for white space. */
const lineEnds = ['\r', '\u2028']

/**
 * Texts that are made of a pattern's own alphabet, on which it works hardest if it can be made to work: each of its literals and a few
 * members of each of its classes, over and over, behind what the pattern has to see first, with an end that it does not expect.
 */
export function hostileTexts({ source, flags }: RegExp): HostileText[] {
  const { units, befores } = alphabetOf(
    new RegExpParser().parsePattern(source, 0, source.length, { unicode: /[uv]/.test(flags) }),
    flags,
  )
  const texts = units.flatMap((unit) => befores.map((before) => ({ before, unit })))
  return texts.flatMap(({ before, unit }) => ends.map((after) => ({ before, unit, after })))
}

function alphabetOf(tree: AST.Pattern, flags: string): { units: string[]; befores: string[] } {
  const short = (node: AST.Node) => shortest(node, flags)
  /** What a repeat runs over, alone and with what begins it again in the middle. */
  const repeated = new Set<string>()
  const literals = new Set<string>([short(tree)])
  const members = new Set<string>()
  const befores = new Set<string>([''])
  visitRegExpAST(tree, {
    onAlternativeEnter(node) {
      let before = ''
      let literal = ''
      for (const element of node.elements) {
        if (element.type === 'Quantifier' && element.max > element.min + 8) {
          befores.add(outside(node, short) + before)
          repeated.add(before + short(element.element)).add(short(element.element))
        }
        if (element.type !== 'Character') {
          literals.add(literal)
          literal = ''
        } else literal += short(element)
        before += short(element)
      }
      literals.add(literal).add(before)
    },
    onCharacterSetEnter: (node) => addMembers(node),
    onCharacterClassEnter: (node) => addMembers(node),
  })
  function addMembers(node: AST.CharacterSet | AST.CharacterClass): void {
    const all = membersOf(node, flags)
    const some = [all[0], all[Math.floor(all.length / 2)], all.at(-1), ...lineEnds.filter((end) => all.includes(end))]
    for (const member of some) if (member) members.add(member)
  }
  const units = [...new Set([...repeated, ...members, ...literals])].filter((unit) => unit !== '').slice(0, maxUnits)
  // two that take turns, for patterns of lists and paths
  const pairs = units.slice(0, 4).flatMap((unit, index) => units.slice(index + 1, 4).map((other) => unit + other))
  return { units: [...units, ...pairs], befores: [...befores].slice(0, maxBefores) }
}

/** The shortest text that lets a pattern come to an alternative of a group. */
function outside(alternative: AST.Alternative, short: (node: AST.Node) => string): string {
  let before = ''
  for (let node: AST.Node | null = alternative; node; node = node.parent) {
    const parent: AST.Node | null = node.parent
    if (parent?.type !== 'Alternative') continue
    const at = parent.elements.indexOf(node as AST.Element)
    before = parent.elements.slice(0, at).map(short).join('') + before
  }
  return before
}

function shortest(node: AST.Node, flags: string): string {
  if (node.type === 'Quantifier') return shortest(node.element, flags).repeat(node.min)
  if (node.type === 'Alternative') return node.elements.map((element) => shortest(element, flags)).join('')
  if (node.type === 'Character') return String.fromCodePoint(node.value)
  if (node.type === 'CharacterSet' || node.type === 'CharacterClass') return membersOf(node, flags)[0] ?? ''
  const isGroup = node.type === 'Pattern' || node.type === 'Group' || node.type === 'CapturingGroup'
  return isGroup ? shortest(node.alternatives[0] as AST.Alternative, flags) : ''
}

function membersOf({ raw }: { readonly raw: string }, flags: string): string[] {
  const one = new RegExp(`^${raw}$`, flags.replaceAll(/[gymy]/g, ''))
  return candidates.filter((candidate) => one.test(candidate))
}
