import { createHmac, randomBytes } from 'node:crypto'

const prefix = 'whsec_'

/** Makes a secret of 32 random bytes, in the form of Standard Webhooks, which every forge accepts too. */
export const makeWebhookSecret = () => `${prefix}${randomBytes(32).toString('base64')}`

export interface SignedMessage {
  /** Stays the same when a delivery is repeated. */
  readonly id: string
  readonly sentAt: Date
  readonly body: string
}

/**
 * The headers that prove a delivery to its receiver, as Standard Webhooks say.
 * @param secret `whsec_<base64>`
 */
export function signatureHeaders(secret: string, { id, sentAt, body }: SignedMessage): Record<string, string> {
  const timestamp = String(Math.floor(sentAt.getTime() / 1000))
  const key = Buffer.from(secret.slice(prefix.length), 'base64')
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` }
}
