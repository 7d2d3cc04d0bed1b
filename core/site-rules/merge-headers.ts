import { isSingleValued } from './header-names.ts'
import type { HeaderBlock } from './rules.ts'

/** A header of a response, with the lines of `_headers` whose blocks set it. */
export interface AppliedHeader {
  readonly name: string
  readonly value: string
  readonly lines: number[]
}

/** Of all headers that a site adds to one response. Many clients and proxies refuse a head of more than 16 KB. */
export const maxAddedHeaderBytes = 8 * 1024

/**
 * All blocks that match apply, in their order. Values of the same name are joined, but of a header with one value the last counts. What does
 * not fit is left out.
 */
export function mergeBlocks(blocks: readonly HeaderBlock[]): AppliedHeader[] {
  const headers = new Map<string, AppliedHeader>()
  let room = maxAddedHeaderBytes
  for (const { line, set, unset = [] } of blocks) {
    for (const name of unset) headers.delete(name.toLowerCase())
    for (const [name, value] of set) {
      room -= name.length + value.length + 4
      if (room < 0) return [...headers.values()]
      const known = isSingleValued(name) ? undefined : headers.get(name.toLowerCase())
      const lines = known ? [...known.lines.filter((other) => other !== line), line] : [line]
      headers.set(name.toLowerCase(), { name: known?.name ?? name, value: known ? `${known.value}, ${value}` : value, lines })
    }
  }
  return [...headers.values()]
}
