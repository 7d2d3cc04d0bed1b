import { field, list, text } from '../../core/git-payloads/fields.ts'
import { ForgeError } from './transport.ts'

export { field, list, text }

/** Reads an id, which some forges return as a number. */
export function idIn(value: unknown, ...path: readonly string[]): string | undefined {
  const found = field(value, ...path)
  return typeof found === 'number' || typeof found === 'string' ? String(found) : undefined
}

/** The id of an object that a forge has created. @throws ForgeError */
export function requireId(value: unknown): string {
  const id = idIn(value, 'id')
  if (id === undefined) throw new ForgeError('unavailable', 'the forge answered in a form that is not known')
  return id
}
