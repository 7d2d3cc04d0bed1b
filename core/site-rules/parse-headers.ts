import { isCachingHeader, isHeaderName, refusalOfHeader } from './header-names.ts'
import { collectFaults, linesOf } from './lines.ts'
import { parsePathPattern } from './path-pattern.ts'
import { type HeaderBlock, maxHeaderBlocks, maxHeaderLine, type RuleFault } from './rules.ts'

interface OpenBlock {
  readonly line: number
  readonly path: string
  readonly set: [string, string][]
  readonly unset: string[]
}

/** A path at the start of a block, then lines `Name: value`, or `! Name` to take one of an earlier block back. */
export function parseHeaders(text: string): { blocks: HeaderBlock[]; faults: RuleFault[] } {
  const faults = collectFaults('_headers')
  const blocks: OpenBlock[] = []
  /** Undefined before the first path, null below a path that is left out. */
  let open: OpenBlock | undefined | null
  for (const { number, text: line, isIndented } of linesOf(text, maxHeaderLine, faults)) {
    if (line.startsWith('/') || /^https?:\/\//i.test(line)) {
      const refusal = refusalOfPath(line) ?? (blocks.length === maxHeaderBlocks ? tooMany : undefined)
      if (refusal !== undefined) faults.add(number, refusal)
      open = refusal === undefined ? { line: number, path: line, set: [], unset: [] } : null
      if (open) blocks.push(open)
      continue
    }
    if (!isIndented && !line.startsWith('!') && !isHeaderName(nameOf(line))) {
      // the headers below it are not for the path above
      faults.add(number, notAPath)
      open = null
      continue
    }
    if (open === null) continue
    const refusal = open ? addLine(open, line) : 'stands before the first path'
    if (refusal !== undefined) faults.add(number, refusal, isCachingHeader(nameOf(line)) ? 'caching' : undefined)
  }
  const used = blocks.filter(({ set, unset }) => set.length + unset.length > 0)
  return { blocks: used.map(({ unset, ...block }) => (unset.length > 0 ? { ...block, unset } : block)), faults: faults.list() }
}

const notAPath = 'is not a path that begins with a slash; the headers below it are left out'
const tooMany = `is one too many: a site has at most ${maxHeaderBlocks} paths with headers`

function refusalOfPath(line: string): string | undefined {
  if (!line.startsWith('/') || line.startsWith('//')) return 'names a host; headers are the same for all hosts of the site'
  const pattern = parsePathPattern(line)
  return typeof pattern === 'string' ? pattern : undefined
}

function addLine(block: OpenBlock, line: string): string | undefined {
  if (line.startsWith('! ')) {
    const name = line.slice(1).trim()
    const refusal = refusalOfHeader(name, '')
    if (refusal === undefined) block.unset.push(name)
    return refusal
  }
  const name = nameOf(line)
  if (name === '') return 'is neither a path nor a header such as X-Frame-Options: DENY'
  const value = line.slice(line.indexOf(':') + 1).trim()
  const refusal = value === '' ? 'has a header without a value' : refusalOfHeader(name, value)
  if (refusal === undefined) block.set.push([name, value])
  return refusal
}

/** Empty for a line without a colon. */
const nameOf = (line: string) => line.slice(0, Math.max(0, line.indexOf(':'))).trim()
