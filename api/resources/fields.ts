import { z } from 'zod'
import { maxDescriptionLength, maxNameLength } from '../../core/limits.ts'

/** An instant as callers see it: RFC 3339 in UTC with milliseconds. */
export const time = z.iso.datetime({ precision: 3 })
export const sha256 = z.string().regex(/^[0-9a-f]{64}$/)

/** PostgreSQL's text has no NUL, and half a surrogate pair is no text. */
const storable = (text: string) => !text.includes('\u0000') && text.isWellFormed()
const text = (maxLength: number) => z.string().max(maxLength).refine(storable, 'must be text without NUL characters')

export const name = text(maxNameLength).describe('What people call it.')
export const description = text(maxDescriptionLength)

export const site_id = z.uuid().describe('Id of the site.')
export const deploy_id = z.uuid().describe('Id of the deploy.')

export const isoTime = (date: Date) => date.toISOString()
export const isoTimeOrNull = (date: Date | null) => (date === null ? null : date.toISOString())
