import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { type Browser, chromium } from 'playwright-core'
import { test } from 'vitest'

const folders = (process.env['PATH'] ?? '').split(delimiter)
const executablePath = folders.map((folder) => join(folder, 'chromium')).find((path) => existsSync(path))

/** Whether this machine has Chromium. Those without can run the other tests; CI installs it. */
export const hasChromium = executablePath !== undefined

export const browserTest = test.skipIf(!hasChromium)

export function launchChromium(): Promise<Browser> {
  if (executablePath === undefined) throw new Error('there is no chromium on the PATH')
  return chromium.launch({ executablePath, args: ['--no-sandbox'] })
}
