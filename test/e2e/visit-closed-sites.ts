import type { BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { hasChromium, launchChromium, watchPolicies } from './chromium.ts'
import { type ClosedSites, openClosedSites } from './closed-sites.ts'

/** Opens an address in a browser context of its own. */
export type OpenPage = (url: string, options?: BrowserContextOptions) => Promise<Page>

/** Opens closed sites and a Chromium for the tests of a file, each of which fails when the policy of a page has refused something. */
export function visitClosedSites(receive: (opened: { readonly sites: ClosedSites; readonly open: OpenPage }) => void): void {
  const stack = new AsyncDisposableStack()
  const refused: string[] = []
  beforeAll(async () => {
    if (!hasChromium) return
    const sites = stack.use(await openClosedSites())
    const browser = await launchChromium({ trusting: await sites.authorityOfSites() })
    stack.defer(() => browser.close())
    receive({
      sites,
      async open(url, options = {}) {
        const page = await (await browser.newContext(options)).newPage()
        watchPolicies(page, refused)
        await page.goto(url)
        return page
      },
    })
  }, 300_000)
  afterAll(() => stack.disposeAsync(), 60_000)
  afterEach(() => expect(refused).toEqual([]))
}
