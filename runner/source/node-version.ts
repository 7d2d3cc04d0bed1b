import { intersects, satisfies, valid, validRange } from 'semver'
import { defaultNodeMajor, type NodeMajor, nodeMajors } from '../../core/build-plan.ts'
import { nodeVersions } from '../../infra/toolchain/versions.ts'

/** The version of Node that a source asks for. */
export interface NodeRequest {
  /** The file with the version, for messages. */
  readonly file: string
  readonly text: string
}

export type NodeChoice =
  | { readonly kind: 'node'; readonly major: NodeMajor }
  | { readonly kind: 'refused'; readonly error: string }

/** The names of versions in nvm: the majors with long-term support by their code names. */
const codeNames = new Map<string, NodeMajor>([
  ['hydrogen', 18],
  ['iron', 20],
  ['jod', 22],
  ['krypton', 24],
])
const newestMajor: NodeMajor = 24
const newestNames = new Set(['node', 'stable', 'latest', 'current', 'lts', 'lts/*', 'lts/-0'])

/**
 * The major that a `.nvmrc`, `.node-version` or `engines.node` asks for. Of a range 20 is taken when it fits, else the newest that
 * does; a version is taken for its major, because there is one release of each.
 */
export function chooseNode(request: NodeRequest | undefined): NodeChoice {
  if (!request) return { kind: 'node', major: defaultNodeMajor }
  const wanted = firstWord(request.text)
  if (wanted === undefined) return { kind: 'node', major: defaultNodeMajor }
  const major = namedMajor(wanted) ?? fittingMajor(wanted)
  if (major !== undefined) return { kind: 'node', major }
  const asked = validRange(wanted) === null ? `names ${JSON.stringify(wanted)}, which is no version` : `asks for Node ${wanted}`
  return {
    kind: 'refused',
    error: `${request.file} ${asked}; builds have Node ${nodeMajors.slice(0, -1).join(', ')} and ${newestMajor}: name one of them, or none for Node ${defaultNodeMajor}`,
  }
}

/** The first line that is not a comment. */
function firstWord(text: string): string | undefined {
  const lines = text.split(/\r?\n/).map((line) => line.replace(/#.*/, '').trim())
  return lines.find((line) => line !== '')?.slice(0, 200)
}

function namedMajor(wanted: string): NodeMajor | undefined {
  const name = wanted.toLowerCase()
  if (newestNames.has(name)) return newestMajor
  return codeNames.get(name.replace(/^lts\//, ''))
}

function fittingMajor(wanted: string): NodeMajor | undefined {
  const range = wanted.replace(/^node[-@/]?/i, '')
  const exact = valid(range)
  if (exact) return nodeMajors.find((major) => exact.startsWith(`${major}.`))
  if (validRange(range) === null) return undefined
  const newestFirst = nodeMajors.toReversed()
  const preferred = [defaultNodeMajor, ...newestFirst]
  const satisfying = preferred.find((major) => satisfies(nodeVersions[major], range))
  // a range of old releases of a major is served by its last one
  return satisfying ?? newestFirst.find((major) => intersects(range, `${major}.x`))
}
