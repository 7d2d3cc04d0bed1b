import { timingSafeEqual } from 'node:crypto'
import type { Context as Koa } from 'koa'
import { AppError, secondsUntil, tooManyRequests } from '../core/errors.ts'
import { hashSecret, parseKey } from '../infra/crypto/project-keys.ts'
import { createCounter } from '../infra/limits.ts'
import { findKey, touchKey } from '../services/projects/keys.ts'
import { clientNetwork } from './client-network.ts'
import type { Caller, Deps } from './context.ts'
import { shareLookUps } from './shared-look-ups.ts'

const touchIntervalMs = 60_000

export const unauthorized = (message: string) => new AppError('unauthorized', message)

/** The token of an `Authorization: Bearer` header; undefined without one. */
export function bearerToken(header: string | undefined): string | undefined {
  return header?.match(/^Bearer +(\S+) *$/i)?.[1]
}

/** Compares in constant time, for texts of any length. */
export const sameSecret = (a: string, b: string) => timingSafeEqual(hashSecret(a), hashSecret(b))

/**
 * Makes a function that counts a wrong credential of a sender. It throws AppError `too_many_requests` when the sender has sent more than
 * `perMinute` within a minute. Right credentials are not counted, so they are always accepted.
 */
export function createWrongAttempts(perMinute: number, message: string): (sender: string) => void {
  const counter = createCounter(perMinute)
  return (sender) => {
    // of the monotonic clock, which does not wait for PostgreSQL: only durations count
    const now = new Date(performance.now())
    const until = counter.count(sender, now)
    if (until) throw tooManyRequests(message, secondsUntil(until, now))
  }
}

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
    const parsed = parseKey(token)
    if (!parsed) throw unknownKey()
    const { id } = parsed
    const tokenHash = hashSecret(token).toString('base64')
    const address = { kind: 'address', id: clientNetwork(koa.req) } as const
    const key = await (proved.has(tokenHash) ? findProved(id) : findKey(deps.admission.databaseOf(address), id))
    // compared even when there is no such key, so that the response time reveals nothing
    const matches = timingSafeEqual(key?.secret_sha256 ?? nobody, parsed.secret_sha256)
    if (!key || !matches) {
      proved.delete(tokenHash)
      throw unknownKey()
    }
    remember(tokenHash)
    const now = deps.clock()
    if (!key.last_used_at || now.getTime() - key.last_used_at.getTime() > touchIntervalMs) {
      await touchKey(deps.admission.databaseOf({ kind: 'key', id }), key.id, now)
    }
    const { project_id, project_name, plan, suspended, suspended_reason, scope } = key
    return {
      key: { id: key.id, name: key.name, last_used_at: key.last_used_at },
      scope,
      project_id,
      project_name,
      plan,
      suspended,
      suspended_reason,
    }
  }
}

const unknownKey = () => unauthorized('this key is unknown or revoked; use another, or ask for a new one')
