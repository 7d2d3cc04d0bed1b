import { hash } from 'node:crypto'

/** The sha256 of bytes, or of a text in UTF-8: 64 hex characters. */
export const sha256Hex = (content: string | Uint8Array) => hash('sha256', content)
