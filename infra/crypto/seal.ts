import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { deriveKey } from './derive-key.ts'

/** A sealed text cannot be opened: it was changed, belongs to another place, or its key is unknown. */
export class SealError extends Error {
  override readonly name = 'SealError'
}

/** The place of a sealed text. It cannot be opened for any other place. */
export interface SealContext {
  readonly table: string
  readonly id: string
  readonly column: string
}

export interface Keyring {
  /** The key that seals; all others only open texts from before a rotation. */
  readonly current: SealingKey
  readonly byId: ReadonlyMap<string, SealingKey>
}

export interface SealingKey {
  /** Eight hex digits that identify the key and reveal nothing about it. */
  readonly id: string
  readonly secret: Uint8Array
}

const version = 'v1'
const nonceBytes = 12
const tagBytes = 16
const form = new RegExp(`^${version}\\.([0-9a-f]{8})\\.([A-Za-z0-9_-]+)$`)

/**
 * @param secretKey PLINTH_SECRET_KEY
 * @param earlier the keys before a rotation, for texts that are not resealed yet
 */
export function openKeyring(secretKey: Uint8Array, earlier: readonly Uint8Array[] = []): Keyring {
  const [current, ...others] = [secretKey, ...earlier].map(sealingKey) as [SealingKey, ...SealingKey[]]
  return { current, byId: new Map([current, ...others].map((key) => [key.id, key])) }
}

function sealingKey(secretKey: Uint8Array): SealingKey {
  const id = createHash('sha256').update(deriveKey(secretKey, 'plinth sealed texts, key id')).digest('hex').slice(0, 8)
  return { id, secret: deriveKey(secretKey, 'plinth sealed texts') }
}

/** Encrypts a text with AES-256-GCM for one place. Each call has a different result: `v1.<key id>.<nonce, text and tag in base64url>`. */
export function seal({ current }: Keyring, text: string, context: SealContext): string {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv('aes-256-gcm', current.secret, nonce, { authTagLength: tagBytes })
  cipher.setAAD(place(context, current.id))
  const sealed = Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
  return `${version}.${current.id}.${sealed.toString('base64url')}`
}

/** @throws SealError */
export function open({ byId }: Keyring, sealed: string, context: SealContext): string {
  const [, keyId = '', payload = ''] = form.exec(sealed) ?? []
  const bytes = Buffer.from(payload, 'base64url')
  if (bytes.length < nonceBytes + tagBytes) throw new SealError(`${described(context)} is not a sealed text`)
  const key = byId.get(keyId)
  if (!key)
    throw new SealError(
      `${described(context)} was sealed with the key ${keyId}, which is not known: is PLINTH_SECRET_KEY another one now?`,
    )
  const decipher = createDecipheriv('aes-256-gcm', key.secret, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes })
  decipher.setAAD(place(context, key.id))
  decipher.setAuthTag(bytes.subarray(-tagBytes))
  try {
    return Buffer.concat([decipher.update(bytes.subarray(nonceBytes, -tagBytes)), decipher.final()]).toString('utf8')
  } catch (cause) {
    throw new SealError(`${described(context)} was changed, or was sealed for another place`, { cause })
  }
}

/** As {@link open}; undefined when the text cannot be opened, such as after a change of the secret key. */
export function openIfPossible(keyring: Keyring, sealed: string, context: SealContext): string | undefined {
  try {
    return open(keyring, sealed, context)
  } catch (error) {
    if (error instanceof SealError) return undefined
    throw error
  }
}

const place = ({ table, id, column }: SealContext, keyId: string) => Buffer.from([version, keyId, table, id, column].join('|'))
const described = ({ table, id, column }: SealContext) => `${column} of ${table} ${id}`
