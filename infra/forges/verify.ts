import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Forge, Headers } from '../../core/git-events.ts'
import { forgeOf, headerOf } from '../../core/git-push.ts'

export interface SignedDelivery {
  readonly headers: Headers
  /** The bytes as they arrived: any other form of the same JSON has another signature. */
  readonly raw: Uint8Array
  /** `whsec_<base64 of 32 bytes>`, the same for all forges. */
  readonly secret: string
  readonly now: Date
}

export type Verdict =
  | {
      readonly ok: true
      readonly forge: Forge
      /** The event with the forge's id of the delivery, which stays the same when it is repeated; undefined when there is none. */
      readonly delivery_id: string | undefined
    }
  | { readonly ok: false; readonly reason: string }

/**
 * Verifies that the sender of a delivery has the secret. The forge that the headers claim decides which proof counts; a proof of another forge
 * does not.
 */
export function verifyDelivery(delivery: SignedDelivery): Verdict {
  const sender = forgeOf(delivery.headers)
  if (!sender) return { ok: false, reason: unknownForge }
  const { proof, ids } = proofs[sender.forge]
  const failure = missingProof(delivery) ?? proof(delivery)
  if (failure !== undefined) return { ok: false, reason: failure }
  const id = ids.map((name) => headerOf(delivery.headers, name)).find((value) => value !== undefined && isDeliveryId(value))
  return { ok: true, forge: sender.forge, delivery_id: id && `${sender.event.slice(0, 100)} ${id}` }
}

const unknownForge = 'no header says which forge sends this: add X-Svc-Token with the secret of the webhook'

/** Why a delivery is refused whatever its body is; undefined when that depends on the body. */
export function missingProof({ headers, secret }: Pick<SignedDelivery, 'headers' | 'secret'>): string | undefined {
  const sender = forgeOf(headers)
  if (!sender) return unknownForge
  if (!isSecret(secret)) return 'this site has no secret for webhooks: make one'
  const { proofHeaders, missing } = proofs[sender.forge]
  return proofHeaders.some((name) => headerOf(headers, name) !== undefined) ? undefined : missing
}

interface Proof {
  /** The headers of which any may carry the proof. */
  readonly proofHeaders: readonly string[]
  /** The message when all of them are missing. */
  readonly missing: string
  /** Returns the problem; undefined for a valid proof. */
  readonly proof: (delivery: SignedDelivery) => string | undefined
  /** Headers with the id of the delivery, best first. */
  readonly ids: readonly string[]
}

const gitlabToken = token('x-gitlab-token')

const proofs: Record<Forge, Proof> = {
  gitea: {
    ...hexSignature(['x-gitea-signature', 'x-forgejo-signature'], ''),
    ids: ['x-gitea-delivery', 'x-forgejo-delivery'],
  },
  github: { ...hexSignature(['x-hub-signature-256'], 'sha256='), ids: ['x-github-delivery'] },
  // GitLab's older versions name only the event, and an event may have several deliveries
  gitlab: {
    ...gitlabToken,
    proofHeaders: ['webhook-signature', 'x-gitlab-token'],
    proof: gitlabProof,
    ids: ['webhook-id', 'idempotency-key', 'x-gitlab-event-uuid'],
  },
  bitbucket: { ...hexSignature(['x-hub-signature'], 'sha256='), ids: ['x-request-uuid'] },
  bitbucket_dc: { ...hexSignature(['x-hub-signature'], 'sha256='), ids: ['x-request-id'] },
  generic: { ...token('x-svc-token'), ids: ['x-svc-delivery'] },
}

const secretForm = /^whsec_[A-Za-z0-9+/]{43}=$/
const isSecret = (secret: string) => secretForm.test(secret)

const isDeliveryId = (id: string) => /^[\x21-\x7e]{1,200}$/.test(id)

/** HMAC-SHA256 of the body in lower-case hex, keyed with the secret as text. */
function hexSignature(names: readonly string[], prefix: string): Omit<Proof, 'ids'> {
  return {
    proofHeaders: names,
    missing: `the delivery is not signed: set the secret of the webhook at the forge (${names[0]} is missing)`,
    proof({ headers, raw, secret }) {
      const given = names.map((name) => headerOf(headers, name)).find((value) => value !== undefined) ?? ''
      const expected = prefix + createHmac('sha256', secret).update(raw).digest('hex')
      if (isEqual(given, expected)) return undefined
      return `${names[0]} does not fit the body: is the secret at the forge the newest one?`
    },
  }
}

function token(name: string): Omit<Proof, 'ids'> {
  return {
    proofHeaders: [name],
    missing: `the delivery has no proof: set the secret token of the webhook at the forge (${name} is missing)`,
    proof: ({ headers, secret }) =>
      isEqual(headerOf(headers, name) ?? '', secret)
        ? undefined
        : `${name} is not the secret of this webhook: is it the newest one?`,
  }
}

const toleranceMs = 5 * 60_000

/** The signature of Standard Webhooks when there is one, whatever the token says. Older versions of GitLab have the token only. */
function gitlabProof(delivery: SignedDelivery): string | undefined {
  const { headers, raw, secret, now } = delivery
  if (headers['webhook-signature'] === undefined) return gitlabToken.proof(delivery)
  const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) =>
    headerOf(headers, name),
  )
  if (!id || !timestamp || !signatures) return 'webhook-signature needs webhook-id and webhook-timestamp beside it'
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(now.getTime() - Number(timestamp) * 1000) > toleranceMs)
    return 'webhook-timestamp is more than 5 minutes away: repeat the delivery, or set the clock'
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  const expected = `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(raw).digest('base64')}`
  const isSigned = signatures
    .split(' ')
    .slice(0, 10)
    .some((given) => isEqual(given, expected))
  return isSigned ? undefined : 'webhook-signature does not fit the body: is the signing token at the forge the newest secret?'
}

const comparisonKey = randomBytes(32)

/** Compares in a time that depends on neither text, by their HMACs, which have the same length. */
function isEqual(given: string, expected: string): boolean {
  const digest = (text: string) => createHmac('sha256', comparisonKey).update(text).digest()
  return timingSafeEqual(digest(given), digest(expected))
}
