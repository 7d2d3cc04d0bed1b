import { invalid } from '../core/errors.ts'
import { maxToolListBytes } from '../core/limits.ts'
import { Listing } from './listing.ts'
import type { Operation, ResultList } from './operation.ts'

type Members = Record<string, unknown>

/** A result as a tool returns it. */
export interface ToolResult {
  /** The answer of REST, except that a long list is cut. */
  readonly body: unknown
  readonly structured: Members
}

/** The list of a tool's result. */
export const listOf = ({ lists }: Operation): ResultList | undefined => lists?.[0]

/** The argument of a tool that continues its list. */
export const continuation = (list: ResultList): string => list.continuedBy ?? 'after'

/**
 * Reads the list of a result up to a number of bytes. What follows begins after the element that `next` names.
 * @param after the argument of the call, for lists that the operation does not continue by itself
 * @throws AppError `invalid` when the list has no such element
 */
export async function readToolResult(op: Operation, answer: unknown, after: unknown): Promise<ToolResult> {
  const list = listOf(op)
  if (!list) return { body: answer, structured: Array.isArray(answer) ? { items: answer } : (answer as Members) }
  const member = list.member === undefined ? answer : (answer as Members)[list.member]
  const skipTo = list.continuedBy === undefined && typeof after === 'string' ? after : undefined
  const { elements, next } = await readUpTo(member as Listing<Members> | readonly Members[], list, skipTo)
  const body = list.member === undefined ? elements : { ...(answer as Members), [list.member]: elements }
  const more = next === undefined ? {} : { next }
  return { body, structured: list.member === undefined ? { items: elements, ...more } : { ...(body as Members), ...more } }
}

async function readUpTo(given: Listing<Members> | readonly Members[], { key }: ResultList, skipTo: string | undefined) {
  const listing = given instanceof Listing ? given : Listing.ofRows(given, undefined)
  const elements: Members[] = []
  let bytes = 0
  let isSkipping = skipTo !== undefined
  for await (const batch of listing.batches) {
    for (const element of batch) {
      if (isSkipping) {
        isSkipping = element[key] !== skipTo
        continue
      }
      bytes += Buffer.byteLength(JSON.stringify(element))
      if (bytes > maxToolListBytes && elements.length > 0) return { elements, next: String(elements.at(-1)?.[key]) }
      elements.push(element)
    }
  }
  if (isSkipping) throw invalid(`the list has no element with the ${key} of after any more; call the tool again without after`)
  return { elements, next: listing.next }
}
