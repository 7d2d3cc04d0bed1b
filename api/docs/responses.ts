import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Operation } from '../operation.ts'

const responses: Readonly<Record<string, unknown>> = JSON.parse(readFileSync(join(import.meta.dirname, 'responses.json'), 'utf8'))

/** A response that the operation gave in a test, which writes them. */
export const responseOf = (op: Operation): unknown => responses[op.id]
