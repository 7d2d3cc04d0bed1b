import { createHash, type X509Certificate } from 'node:crypto'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { type Browser, chromium } from 'playwright-core'
import { test } from 'vitest'

const folders = (process.env['PATH'] ?? '').split(delimiter)
const executablePath = folders.map((folder) => join(folder, 'chromium')).find((path) => existsSync(path))

/** Whether this machine has Chromium. Those without can run the other tests; CI installs it. */
export const hasChromium = executablePath !== undefined

export const browserTest = test.skipIf(!hasChromium)

/** @param trusting an authority whose certificates the browser accepts besides those of the machine's */
export function launchChromium({ trusting }: { readonly trusting?: X509Certificate } = {}): Promise<Browser> {
  if (executablePath === undefined) throw new Error('there is no chromium on the PATH')
  const args = ['--no-sandbox']
  if (trusting) args.push(`--ignore-certificate-errors-spki-list=${keyHash(trusting)}`)
  return chromium.launch({ executablePath, args })
}

const keyHash = ({ publicKey }: X509Certificate) =>
  createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('base64')
