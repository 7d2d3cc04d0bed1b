import { z } from 'zod'
import { maxJsonBodyBytes, maxKeptJsonBytes, maxToolBodyBytes } from '../core/limits.ts'
import { covers, type Scope } from '../core/scopes.ts'
import type { JsonBounds } from './json-scanner.ts'
import type { Operation } from './operation.ts'

/** Values that a body may have besides those of its schema: unknown members, which are ignored, and those of an envelope. */
const spareValues = 500
/** The limit of items for a list without one in its schema. */
const usualItems = 100

/** The bounds of an operation's JSON body, derived from its input. */
export function jsonBoundsOf(op: Operation): JsonBounds {
  const maxBytes = op.largeBody?.maxBytes ?? op.maxBodyBytes ?? maxJsonBodyBytes
  return {
    maxBytes,
    maxKeptBytes: op.largeBody ? maxKeptJsonBytes : maxBytes,
    maxValues: spareValues + countValues(z.toJSONSchema(op.input, { io: 'input' })),
    longMembers: new Set(op.largeBody?.longMembers),
  }
}

/** The bounds of a message to the tool server with a key of the scope: those of the largest of its tools. */
export function toolBoundsOf(operations: readonly Operation[], scope: Scope): JsonBounds {
  const tools = operations.filter((op) => op.tool && covers(scope, op.scope))
  const bounds = tools.map(jsonBoundsOf)
  const longMembers = tools.flatMap((op) => (op.raw ? [rawMember(op.raw)] : [...(op.largeBody?.longMembers ?? [])]))
  const isLarge = longMembers.length > 0
  return {
    maxBytes: isLarge ? maxToolBodyBytes : Math.max(maxJsonBodyBytes, ...bounds.map((one) => one.maxBytes)),
    maxKeptBytes: Math.max(maxJsonBodyBytes, ...bounds.map((one) => one.maxKeptBytes)),
    maxValues: spareValues + Math.max(...bounds.map((one) => one.maxValues)),
    longMembers: new Set(longMembers),
  }
}

/** The name of the argument for a tool's raw bytes. */
export const rawMember = ({ name }: NonNullable<Operation['raw']>) => `${name}_base64`

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly maxItems?: number
  readonly anyOf?: readonly Schema[]
}

/** Counts the values of the largest document that a JSON Schema accepts. */
function countValues(schema: unknown): number {
  const { properties = {}, items, maxItems = usualItems, anyOf = [] } = schema as Schema
  const members = Object.values(properties).reduce((sum, member) => sum + countValues(member), 0)
  const elements = items ? maxItems * countValues(items) : 0
  const choices = Math.max(0, ...anyOf.map(countValues))
  return 1 + members + elements + choices
}
