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
