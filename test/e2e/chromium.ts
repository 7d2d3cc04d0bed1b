import { createHash, type X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { AxeResults } from 'axe-core'
import { type Browser, chromium, type Page } from 'playwright-core'
import { test } from 'vitest'

// without the windows and services of the whole browser, the same engine takes half of the processor time
const programs = ['chromium-headless-shell', 'chromium']
const folders = (process.env['PATH'] ?? '').split(delimiter)
const executablePath = programs.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => existsSync(path))

/** Whether this machine has Chromium. Those without can run the other tests; CI installs it. */
export const hasChromium = executablePath !== undefined

export const browserTest = test.skipIf(!hasChromium)

/** @param trusting an authority whose certificates the browser accepts besides those of the machine's */
export function launchChromium({ trusting }: { readonly trusting?: X509Certificate } = {}): Promise<Browser> {
  if (executablePath === undefined) throw new Error(`there is no ${programs.join(' or ')} on the PATH`)
  const args = ['--no-sandbox']
  if (trusting) args.push(`--ignore-certificate-errors-spki-list=${keyHash(trusting)}`)
  return chromium.launch({ executablePath, args })
}

// twice as quick to compile as the source that the package exports
const axeSource = readFileSync(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8')

/** What axe finds on a page: each rule that is broken, with the elements that break it. */
export async function axeFindings(page: Page): Promise<readonly (readonly [rule: string, elements: readonly string[]])[]> {
  await page.evaluate(axeSource)
  // by default axe describes every element that passes, too
  const { violations } = (await page.evaluate("axe.run({ resultTypes: ['violations'] })")) as AxeResults
  return violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)])
}

/** Adds to a list what the policies of a page's documents refuse from now on. */
export function watchPolicies(page: Page, refused: string[]): void {
  page.on('console', (message) => {
    if (message.text().includes('Content Security Policy')) refused.push(message.text())
  })
}

const keyHash = ({ publicKey }: X509Certificate) =>
  createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('base64')
