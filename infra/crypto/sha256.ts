import { createHash } from 'node:crypto'

/** The sha256 of a text in UTF-8: 64 hex characters. */
export const sha256Hex = (text: string) => createHash('sha256').update(text).digest('hex')
