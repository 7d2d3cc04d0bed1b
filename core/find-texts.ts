/** A range of a text: from `start` up to, not including, `end`. */
export interface Found {
  readonly start: number
  readonly end: number
}

export interface TextFinder {
  /** The ranges in which any of the texts occurs, in order; those that overlap are one. */
  find(text: string): Found[]
  /** How many characters at the end of a text may be the beginning of one of the texts. */
  begunAtEnd(text: string): number
}

const units = 0x10000

/**
 * Finds many texts at once, in time that grows with the length of what is searched and not with the number of texts (Aho and Corasick, "Efficient
 * string matching", 1975).
 */
export function createTextFinder(texts: Iterable<string>): TextFinder {
  /** By node and code unit. Nodes are beginnings of texts; node 0 is the empty one. */
  const children = new Map<number, number>()
  const [parents, lastUnits, lengths] = [[0], [0], [0]]
  /** By node, the length of the longest text that ends with it; 0 is none. */
  const ends = [0]
  for (const text of texts) insert(text)
  /** By node, the longest other node that it ends with. */
  const shorter = new Int32Array(parents.length)
  for (const node of byLength()) link(node)

  function insert(text: string): void {
    let node = 0
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at)
      let child = children.get(node * units + unit)
      if (child === undefined) {
        child = parents.push(node) - 1
        lastUnits.push(unit)
        lengths.push(at + 1)
        ends.push(0)
        children.set(node * units + unit, child)
      }
      node = child
    }
    ends[node] = text.length
  }

  function byLength(): number[] {
    const nodes = Array.from(parents.keys()).slice(1)
    return nodes.sort((a, b) => (lengths[a] as number) - (lengths[b] as number))
  }

  function link(node: number): void {
    const parent = parents[node] as number
    const next = parent === 0 ? 0 : step(shorter[parent] as number, lastUnits[node] as number)
    shorter[node] = next
    ends[node] = Math.max(ends[node] as number, ends[next] as number)
  }

  function step(from: number, unit: number): number {
    for (let node = from; ; node = shorter[node] as number) {
      const child = children.get(node * units + unit)
      if (child !== undefined) return child
      if (node === 0) return 0
    }
  }

  return {
    find(text) {
      const found: { start: number; end: number }[] = []
      let node = 0
      for (let at = 0; at < text.length; at++) {
        node = step(node, text.charCodeAt(at))
        const length = ends[node] as number
        if (length === 0) continue
        const [start, end] = [at + 1 - length, at + 1]
        // a longer text may begin before several that were found inside it
        let from = start
        while (found.length > 0 && (found.at(-1) as Found).end > start) from = Math.min(from, (found.pop() as Found).start)
        found.push({ start: from, end })
      }
      return found
    },
    begunAtEnd(text) {
      let node = 0
      for (let at = 0; at < text.length; at++) node = step(node, text.charCodeAt(at))
      return lengths[node] as number
    },
  }
}
