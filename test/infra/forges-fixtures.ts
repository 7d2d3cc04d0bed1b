import { globSync, readFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'

const dir = resolve(import.meta.dirname, '../fixtures/webhooks')

/** With which the signatures of all fixtures were made, by openssl. */
export const webhookSecret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
/** When GitLab's signed fixtures were sent. */
export const webhookSentAt = new Date(1_795_262_400_000)

export const webhookNames = globSync('*.json', { cwd: dir })
  .map((file) => basename(file, '.json'))
  .sort()

export interface Webhook {
  readonly headers: Readonly<Record<string, string>>
  /** Exactly as sent. Those of Gitea were recorded from one; the others have the documented form. */
  readonly raw: string
}

export const readWebhook = (name: string) => JSON.parse(readFileSync(join(dir, `${name}.json`), 'utf8')) as Webhook

const proofHeaders = [
  'x-hub-signature-256',
  'x-hub-signature',
  'x-gitea-signature',
  'x-forgejo-signature',
  'x-gitlab-token',
  'webhook-signature',
  'x-svc-token',
]

/** The same delivery with another proof; undefined leaves a header out. */
export const changeProof = ({ headers, raw }: Webhook, change: (value: string, name: string) => string | undefined): Webhook => ({
  raw,
  headers: Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => {
      const now = proofHeaders.includes(name) ? change(value, name) : value
      return now === undefined ? [] : [[name, now]]
    }),
  ),
})
