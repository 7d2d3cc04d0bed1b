import { createHmac } from 'node:crypto'
import { base32 } from './base32.ts'
import { deriveKey } from './derive-key.ts'
import { sha256Hex } from './sha256.ts'

/** Derives the token of a preview link: 52 characters of lower-case base32, different for each generation. */
export type PreviewTokens = (deployId: string, generation: number) => string

/**
 * Tokens are derived, not stored: a reader of the database cannot open a preview, and a repeated call returns the same link.
 * Another secret key gives other tokens.
 */
export function createPreviewTokens(secretKey: Uint8Array): PreviewTokens {
  const key = deriveKey(secretKey, 'plinth preview links')
  return (deployId, generation) => base32(createHmac('sha256', key).update(`${deployId}:${generation}`).digest())
}

/** The hash of a token, which is stored and looked up for visitors: 64 hex characters. */
export const hashPreviewToken = (token: string) => sha256Hex(token)

export interface IssuedToken {
  /** The id of the deploy or of the branch preview. */
  readonly id: string
  /** Null when there was never a link. */
  readonly generation: number | null
  /** Null while there is no link. */
  readonly token_sha256: string | null
}

/** The token of a link; undefined without a link, or when its token came from another secret key and no longer opens. */
export function issuedToken(previewTokens: PreviewTokens, { id, generation, token_sha256 }: IssuedToken): string | undefined {
  if (generation === null) return undefined
  const token = previewTokens(id, generation)
  return hashPreviewToken(token) === token_sha256 ? token : undefined
}
