import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Expression, parseSync, type TemplateLiteral, Visitor } from 'oxc-parser'

export interface FoundPattern {
  /** `core/hosts.ts:16`. */
  readonly place: string
  readonly pattern: RegExp
}

const root = fileURLToPath(new URL('../..', import.meta.url))
const product = ['api', 'core', 'edge', 'infra', 'runner', 'services', 'workflows']

/**
 * Every regular expression in the source of the product: literals, and those made by `RegExp`.
 * @param parts what stands for `${name}` in a pattern that is made of a template, by `name`
 * @throws Error for a pattern that is made of anything else, because nobody could tell what it costs
 */
export function findPatterns(parts: Readonly<Record<string, string>>): FoundPattern[] {
  const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', ...product], { cwd: root })
  const files = listed.toString('utf8').split('\n')
  return files.filter((file) => /\.(?:ts|mjs|cjs|js)$/.test(file)).flatMap((file) => patternsIn(file, parts))
}

function patternsIn(file: string, parts: Readonly<Record<string, string>>): FoundPattern[] {
  const source = readFileSync(`${root}${file}`, 'utf8')
  const { program, errors } = parseSync(file, source)
  if (errors.length > 0) throw new Error(`${file} cannot be parsed: ${errors[0]?.message}`)
  const found: FoundPattern[] = []
  const placeOf = (at: number) => `${file}:${source.slice(0, at).split('\n').length}`
  const made = (node: { callee: Expression; arguments: readonly unknown[]; start: number }) => {
    if (node.callee.type !== 'Identifier' || node.callee.name !== 'RegExp') return
    const place = placeOf(node.start)
    const [text, flags] = node.arguments.map((argument) => textOf(argument as Expression, parts, place))
    found.push({ place, pattern: new RegExp(text ?? '', flags) })
  }
  new Visitor({
    Literal(node) {
      if (!('regex' in node)) return
      found.push({ place: placeOf(node.start), pattern: new RegExp(node.regex.pattern, node.regex.flags) })
    },
    NewExpression: made,
    CallExpression: made,
  }).visit(program)
  return found
}

function textOf(node: Expression, parts: Readonly<Record<string, string>>, place: string): string {
  if (node.type === 'Literal' && typeof node.value === 'string') return node.value
  if (node.type === 'TemplateLiteral') return node.quasis.map((quasi, at) => quasi.value.cooked + partAt(node, at)).join('')
  throw new Error(`${place}: make the pattern of a literal or a template, so that a test can try it`)

  function partAt({ expressions }: TemplateLiteral, at: number): string {
    const expression = expressions[at]
    if (expression === undefined) return ''
    const part = expression.type === 'Identifier' ? parts[expression.name] : undefined
    if (part === undefined) throw new Error(`${place}: say in the table of parts what stands in the pattern`)
    return part
  }
}
