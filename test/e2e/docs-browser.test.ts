import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect } from 'vitest'
import { operations } from '../../api/operations/index.ts'
import { makeSite } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { hasChromium, launchChromium, browserTest as test } from './chromium.ts'

// The reference of the API as people use it, in a real browser.

let w: World
let owner: TestProject
let browser: Browser
const cleanup = new AsyncDisposableStack()
beforeAll(async () => {
  if (!hasChromium) return
  w = cleanup.use(await world())
  owner = await w.project('enterprise')
  browser = await launchChromium()
  cleanup.defer(() => browser.close())
}, 60_000)
afterAll(() => cleanup.disposeAsync())

async function openDocs(width: number): Promise<Page> {
  const page = await browser.newPage({ viewport: { width, height: 800 } })
  const errors: string[] = []
  page.on('pageerror', (error) => errors.push(error.message))
  page.on('console', (message) => message.type() === 'error' && errors.push(message.text()))
  await page.goto(`${w.base}/docs`)
  expect(errors).toEqual([])
  return page
}

test('/docs fits a phone, and its contents open and close', async () => {
  const page = await openDocs(390)
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390)
  await page.getByText('Contents').click()
  await page.getByRole('link', { name: 'Deploy files' }).first().click()
  expect(await page.getByRole('navigation').isVisible()).toBe(false)
  expect(await page.locator('#deploy_files h3').isVisible()).toBe(true)
})

test('/docs keeps its contents beside the text while one reads', async () => {
  const page = await openDocs(1280)
  await page.locator('#list_domains').scrollIntoViewIfNeeded()
  const box = await page.getByRole('navigation').boundingBox()
  expect(box).toMatchObject({ x: expect.any(Number), y: expect.any(Number) })
  expect(box?.y).toBeLessThan(800)
  expect(await page.locator('#search').isVisible()).toBe(true)
})

test('the search of /docs leaves the operations and error codes in which every word is found', async () => {
  const page = await openDocs(1280)
  await page.keyboard.press('/')
  await page.keyboard.type('preview revoke')
  expect(await page.locator('article:visible').evaluateAll((all) => all.map((one) => one.id))).toEqual(['revoke_preview_url'])
  expect(await page.locator('nav li li:visible').allTextContents()).toEqual(['Revoke a preview link'])
  await page.fill('#search', 'quota_sites')
  expect(await page.locator('#errors dt:visible').allTextContents()).toEqual(['quota_sites 402', 'quota_sites 409'])
  await page.fill('#search', 'no such word')
  expect(await page.locator('#nothing').isVisible()).toBe(true)
  await page.fill('#search', '')
  // posting a form is an operation of visitors
  expect(await page.locator('article:visible').count()).toBe(operations.length + 1)
})

test('a form of /docs sends what is filled in with the key of the tab', async () => {
  const site = await makeSite(w, owner)
  const page = await openDocs(390)
  await page.fill('#key', owner.key)
  const article = page.locator('#get_site')
  await article.getByText('Try it').click()
  await article.getByLabel('site_id').fill(site.id)
  await article.getByRole('button', { name: 'Send' }).click()
  await article.getByText('200 OK').waitFor()
  expect(await article.locator('output pre').textContent()).toContain(site.id)
  await page.reload()
  expect(await page.inputValue('#key')).toBe(owner.key)
})
