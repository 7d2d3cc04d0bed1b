import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Context as Koa } from 'koa'
import { AppError } from '../core/errors.ts'
import { findKey, touchKey } from '../services/projects/keys.ts'
import { clientNetwork } from './client-network.ts'
import type { Caller, Deps } from './context.ts'
import { shareLookUps } from './shared-look-ups.ts'

/** `svc_<8 characters>_<43 characters>`: the id finds the row; of the secret only its sha256 is stored. */
const keyPattern = /^svc_([A-Za-z0-9]{8})_([A-Za-z0-9_-]{43})$/
const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const touchIntervalMs = 60_000

const hash = (secret: string) => createHash('sha256').update(secret).digest()

/** Makes a new key; `key` is the text that is shown once. */
export function makeKey(): { id: string; key: string; secret_sha256: Buffer } {
  // 62 does not divide 256, so some letters are more likely: fine for an id, which is no secret
  const id = [...randomBytes(8)].map((byte) => letters[byte % letters.length]).join('')
  const secret = randomBytes(32).toString('base64url')
  return { id, key: `svc_${id}_${secret}`, secret_sha256: hash(secret) }
}

export const unauthorized = (message: string) => new AppError('unauthorized', message)

/** The token of an `Authorization: Bearer` header; undefined without one. */
export function bearerToken(header: string | undefined): string | undefined {
  return header?.match(/^Bearer +(\S+) *$/i)?.[1]
}

/** Compares in constant time, for texts of any length. */
export const sameSecret = (a: string, b: string) => timingSafeEqual(hash(a), hash(b))

const nobody = Buffer.alloc(32)

/** How many proved keys are remembered; each takes about 100 bytes. */
const maxProvedKeys = 10_000

/** Identifies the caller of a request by its key. @throws AppError `unauthorized`, `too_many_requests`, `unavailable` */
export type Authenticate = (koa: Koa) => Promise<Caller>

/**
 * Looks up the key of each request; concurrent requests with the same key share a look-up. A key that was proved before pays for its own
 * look-up. Any other text may be made up, so the client's address pays for it: a client cannot get a larger share by sending a new key with
 * every request.
 */
export function createAuthenticator(deps: Deps): Authenticate {
  /** Hashes of proved keys, the latest use last. */
  const proved = new Set<string>()
  const findProved = shareLookUps((id) => findKey(deps.admission.databaseOf({ kind: 'key', id }), id))

  function remember(tokenHash: string): void {
    proved.delete(tokenHash)
    proved.add(tokenHash)
    const [oldest] = proved
    if (proved.size > maxProvedKeys && oldest !== undefined) proved.delete(oldest)
  }

  return async (koa) => {
    const token = bearerToken(koa.get('authorization'))
    if (token === undefined) throw unauthorized('send your project key in the header Authorization: Bearer <key>')
    const [, id, secret = ''] = keyPattern.exec(token) ?? []
    if (id === undefined) throw unknownKey()
    const tokenHash = hash(token).toString('base64')
    const address = { kind: 'address', id: clientNetwork(koa) } as const
    const key = await (proved.has(tokenHash) ? findProved(id) : findKey(deps.admission.databaseOf(address), id))
    // compared even when there is no such key, so that the response time reveals nothing
    const matches = timingSafeEqual(key?.secret_sha256 ?? nobody, hash(secret))
    if (!key || !matches) {
      proved.delete(tokenHash)
      throw unknownKey()
    }
    remember(tokenHash)
    const now = deps.clock()
    if (!key.last_used_at || now.getTime() - key.last_used_at.getTime() > touchIntervalMs) {
      await touchKey(deps.admission.databaseOf({ kind: 'key', id }), key.id, now)
    }
    const { project_id, project_name, plan, suspended, scope } = key
    return {
      key: { id: key.id, name: key.name, last_used_at: key.last_used_at },
      scope,
      project_id,
      project_name,
      plan,
      suspended,
    }
  }
}

const unknownKey = () => unauthorized('this key is unknown or revoked; use another, or ask for a new one')
