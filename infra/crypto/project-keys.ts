import { createHash, randomBytes } from 'node:crypto'

/** `svc_<8 characters>_<43 characters>`: the id finds the row; of the secret only its sha256 is stored. */
const keyPattern = /^svc_([A-Za-z0-9]{8})_([A-Za-z0-9_-]{43})$/
const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'

export const hashSecret = (secret: string) => createHash('sha256').update(secret).digest()

/** Makes a new key; `key` is the text that is shown once. */
export function makeKey(): { id: string; key: string; secret_sha256: Buffer } {
  // 62 does not divide 256, so some letters are more likely: fine for an id, which is no secret
  const id = [...randomBytes(8)].map((byte) => letters[byte % letters.length]).join('')
  const secret = randomBytes(32).toString('base64url')
  return { id, key: `svc_${id}_${secret}`, secret_sha256: hashSecret(secret) }
}

/** Undefined when the text is no key. */
export function parseKey(text: string): { readonly id: string; readonly secret_sha256: Buffer } | undefined {
  const [, id, secret] = keyPattern.exec(text) ?? []
  return id === undefined || secret === undefined ? undefined : { id, secret_sha256: hashSecret(secret) }
}
