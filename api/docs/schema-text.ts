import type { z } from 'zod'

export type JsonSchema = z.core.JSONSchema.JSONSchema

/** The type of a schema in a few words. */
export function schemaText(schema: JsonSchema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' or ')
  if (schema.anyOf) return schema.anyOf.map((one) => schemaText(one)).join(' or ')
  const otherwise = schema.default === undefined ? '' : `, else ${JSON.stringify(schema.default)}`
  if (schema.type === 'array') return `list of ${schemaText(schema.items as JsonSchema)}`
  if (schema.type === 'object') return `{${Object.keys(schema.properties ?? {}).join(', ')}}`
  if (schema.type === 'integer') return `integer ${schema.minimum} to ${schema.maximum}${otherwise}`
  const length = schema.maxLength === undefined ? '' : `, ${schema.minLength ?? 0} to ${schema.maxLength} characters`
  return `${schema.format ?? String(schema.type)}${length}${otherwise}`
}
