import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { listSettings } from '../../infra/config/setting.ts'
import { settings } from '../../infra/config/settings.ts'
import { settingsPage } from '../../infra/config/settings-page.ts'
import { loadConfig } from '../../infra/config.ts'
import { childEnvironment } from '../../infra/local/environment.ts'

const all = listSettings(settings).map(({ setting }) => setting)

test('docs/settings.md is what `npm run docs` writes', async () => {
  const page = await readFile(join(import.meta.dirname, '..', '..', 'docs', 'settings.md'), 'utf8')
  expect(page).toBe(settingsPage())
})

test('no two settings have the same name', () => {
  expect(new Set(all.map(({ name }) => name)).size).toBe(all.length)
})

test.each(all)('$name is described by one sentence, and its default is stated', ({ about, default: fallback, otherwise }) => {
  expect(about).toMatch(/^[^\n]+[^.]\.$/)
  expect([fallback, otherwise].filter((text) => text !== undefined)).toHaveLength(1)
})

describe('a value that is set', () => {
  const env = {
    PLINTH_DATA_DIR: '/data',
    PLINTH_TRASH_PERIOD: '90m',
    PLINTH_BUILD_MEMORY: '1536m',
    PLINTH_ALLOW_PRIVATE_GIT: 'true',
    PLINTH_STORAGE_COPIES: '/backup/cas, /other/cas',
    PLINTH_ACME_DNS_LISTEN: '0.0.0.0:53',
    PLINTH_ACME_DNS_ZONE: 'ACME.example.net',
    PLINTH_BASE_URL: 'https://host.example:8443/path',
  }
  const config = loadConfig(env)

  test('is read in the unit of the configuration', () => {
    expect(config.names.trashPeriodMs).toBe(5_400_000)
    expect(config.build.memoryBytes).toBe(1_610_612_736)
    expect(config.git.allowPrivate).toBe(true)
    expect(config.storage.copies).toEqual(['/backup/cas', '/other/cas'])
    expect(config.acme.dns).toEqual({ listen: '0.0.0.0:53', zone: 'acme.example.net' })
    expect(config.urls.base).toBe('https://host.example:8443')
  })

  test('is written for a child in a form that it reads as the same', () => {
    expect(childEnvironment(config, 'worker')).toMatchObject({
      PLINTH_ALLOW_PRIVATE_GIT: 'true',
      PLINTH_STORAGE_COPIES: '/backup/cas,/other/cas',
      PLINTH_ACME_DNS_LISTEN: '0.0.0.0:53',
      PLINTH_ACME_DNS_ZONE: 'acme.example.net',
      PLINTH_BASE_URL: 'https://host.example:8443',
    })
    expect(childEnvironment(config, 'api')).toMatchObject({ PLINTH_TRASH_PERIOD: '5400000ms' })
    expect(childEnvironment(config, 'runner')).toMatchObject({ PLINTH_BUILD_MEMORY: '1610612736' })
  })
})

test.each([
  ['PLINTH_HTTP_PORT', '70000', /^PLINTH_HTTP_PORT must be at most 65535$/],
  ['PLINTH_HTTP_PORT', 'http', /^PLINTH_HTTP_PORT must be a number$/],
  ['PLINTH_LOG_LEVEL', 'loud', /^PLINTH_LOG_LEVEL must be one of debug, info, warn, error, silent$/],
  ['PLINTH_TRASH_PERIOD', '1 day', /^PLINTH_TRASH_PERIOD must be a duration such as 500ms, 10s, 5m, 24h or 7d$/],
  ['PLINTH_BUILD_MEMORY', 'much', /^PLINTH_BUILD_MEMORY must be a number of bytes, with k, m or g after it for KiB, MiB or GiB$/],
  ['PLINTH_BASE_URL', 'ftp://host', /^PLINTH_BASE_URL must be an http or https address$/],
  ['PLINTH_ALLOW_PRIVATE_GIT', 'yes', /^PLINTH_ALLOW_PRIVATE_GIT must be true or false$/],
  ['PLINTH_ACME_DNS_ZONE', 'acme.example', /belong together/],
])('%s=%s is refused', (name, value, message) => expect(() => loadConfig({ [name]: value })).toThrow(message))

test.each(all)('$name refuses nonsense in words of its own', ({ name }) => {
  for (const text of ['\0', '-1', '1.5', `${'9'.repeat(400)}d`]) {
    let refusal = ''
    try {
      loadConfig({ [name]: text })
    } catch (error) {
      refusal = (error as Error).message
    }
    expect(refusal).not.toMatch(/Invalid |expected|received|Too (big|small)|Unrecognized/)
  }
})
