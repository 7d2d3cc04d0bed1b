import { field, list, text } from '../../core/git-payloads/fields.ts'
import { ForgeError } from './transport.ts'

export { field, list, text }

/** An id, which some forges give as a number. */
export function idIn(value: unknown, ...path: readonly string[]): string | undefined {
  const found = field(value, ...path)
  return typeof found === 'number' || typeof found === 'string' ? String(found) : undefined
}

/** The id of what a forge has made. @throws ForgeError */
export function requireId(value: unknown): string {
  const id = idIn(value, 'id')
  if (id === undefined) throw new ForgeError('unavailable', 'the forge answered in a form that is not known')
  return id
}
