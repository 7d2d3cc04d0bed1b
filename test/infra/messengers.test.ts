import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { messengerNames, readChannelReference, readStartPayload, startPayload } from '../../core/messengers.ts'
import { loadConfig } from '../../infra/config.ts'
import { openMessengers } from '../../infra/messengers/open.ts'
import { MessengerError } from '../../infra/messengers/provider.ts'
import type { BotApi } from '../doubles/bot-api.ts'
import { startMax } from '../doubles/max.ts'
import { startTelegram } from '../doubles/telegram.ts'

type Messenger = (typeof messengerNames)[number]
let doubles: Record<Messenger, BotApi>
let stack: AsyncDisposableStack
beforeAll(async () => {
  stack = new AsyncDisposableStack()
  doubles = { telegram: stack.use(await startTelegram()), max: stack.use(await startMax()) }
})
afterAll(() => stack.disposeAsync())

const configOf = (change: Record<string, string> = {}) =>
  loadConfig({
    PLINTH_SECRET_KEY: Buffer.alloc(32, 'key').toString('base64'),
    PLINTH_TELEGRAM_BOT_TOKEN: doubles.telegram.token,
    PLINTH_TELEGRAM_API: doubles.telegram.api,
    PLINTH_MAX_BOT_TOKEN: doubles.max.token,
    PLINTH_MAX_API: doubles.max.api,
    ...change,
  })
/** With an answer of its own for every call. */
async function open(messenger: Messenger, change?: Record<string, string>) {
  const provider = openMessengers(configOf(change)).open(messenger, 'payer')
  if (!provider) throw new Error('not set up')
  return provider
}
const kindOf = (error: unknown) => (error instanceof MessengerError ? error.kind : error)

describe.each(messengerNames)('%s', (messenger) => {
  test('the role of a person is that of the channel', async () => {
    const channel = doubles[messenger].channel()
    const provider = await open(messenger)
    for (const [i, role] of (['owner', 'administrator', 'member'] as const).entries()) {
      channel.roles.set(100 + i, role)
      expect(await provider.roleOf(String(channel.id), String(100 + i))).toBe(role)
    }
    expect(await provider.roleOf(String(channel.id), '99')).toBe('none')
  })

  test('a channel that the bot may not see into has no roles, and one that it does not know is none', async () => {
    const provider = await open(messenger)
    const closed = doubles[messenger].channel({ botRole: 'member' })
    closed.roles.set(7, 'member')
    expect(await provider.roleOf(String(closed.id), '7')).toBeUndefined()
    expect(await provider.isBotAdmin(String(closed.id))).toBe(false)
    expect(await provider.roleOf('-1', '7')).toBeUndefined()
    expect(await provider.findChannel({ kind: 'name', name: 'nobody_knows_it' })).toBeUndefined()
  })

  test.each(['overloaded', 'broken', 'garbage', 'silent'] as const)(
    'one that is %s is unavailable, within five seconds',
    // a busy machine may be late once
    { retry: 2 },
    async (fault) => {
      doubles[messenger].fault = fault
      const startedAt = performance.now()
      const error = await (await open(messenger)).roleOf('-5', '7').catch((one: unknown) => one)
      doubles[messenger].fault = undefined
      expect([kindOf(error), performance.now() - startedAt < 6000]).toEqual(['unavailable', true])
    },
  )

  test('after a 429 it is left alone for as long as it asks', async () => {
    const provider = await open(messenger)
    const channel = doubles[messenger].channel()
    doubles[messenger].fault = 'overloaded'
    await provider.roleOf(String(channel.id), '7').catch(() => undefined)
    doubles[messenger].fault = undefined
    const { length } = doubles[messenger].asked
    expect(kindOf(await provider.roleOf(String(channel.id), '7').catch((one: unknown) => one))).toBe('unavailable')
    expect(doubles[messenger].asked).toHaveLength(length)
  })

  test('a wrong token is unavailable, and the error does not show it', async () => {
    const token = '123456789:another-token-of-the-tests'
    const provider = await open(messenger, { [`PLINTH_${messenger.toUpperCase()}_BOT_TOKEN`]: token })
    const error = await provider.roleOf('-5', '7').catch((one: unknown) => one)
    expect(kindOf(error)).toBe('unavailable')
    expect([String(error), (error as Error).stack, (error as Error).cause].join(' ')).not.toContain('another-token')
  })

  test('a redirect and an address at which nobody answers are unavailable', async () => {
    const provider = await open(messenger, { [`PLINTH_${messenger.toUpperCase()}_API`]: 'http://127.0.0.1:9' })
    const error = await provider.send('7', 'hello').catch((one: unknown) => one)
    expect(kindOf(error)).toBe('unavailable')
    expect(String(error)).not.toContain(doubles[messenger].token)
  })

  test('the link to the bot has its name, which is asked for once', async () => {
    const provider = await open(messenger)
    const before = doubles[messenger].asked.length
    const links = await Promise.all([provider.deepLink('lx'), provider.deepLink('ly')])
    const host = messenger === 'telegram' ? 't.me' : 'max.ru'
    expect(links).toEqual(['lx', 'ly'].map((payload) => `https://${host}/${doubles[messenger].botName}?start=${payload}`))
    expect(doubles[messenger].asked.length - before).toBe(1)
  })
})

test.each([
  ['Bad Request: user not found', 'none'],
  ['Bad Request: PARTICIPANT_ID_INVALID', 'none'],
  ['Bad Request: member list is inaccessible', undefined],
  ['Forbidden: bot was kicked from the channel chat', undefined],
])('Telegram refuses with %j: the role is %s', async (description, role) => {
  const { createServer } = await import('node:http')
  const server = createServer((request, response) => {
    request.resume()
    response.writeHead(description.startsWith('Bad') ? 400 : 403).end(JSON.stringify({ ok: false, error_code: 400, description }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const provider = await open('telegram', { PLINTH_TELEGRAM_API: `http://127.0.0.1:${port}` })
  expect(await provider.roleOf('-5', '7')).toBe(role)
  server.closeAllConnections()
  server.close()
})

test('a messenger without a token is not there', () => {
  const messengers = openMessengers(configOf({ PLINTH_MAX_BOT_TOKEN: '' }))
  expect([messengers.names, messengers.open('max', 'x')]).toEqual([['telegram'], undefined])
})

test.each([
  ['telegram', '@field_notes', { kind: 'name', name: 'field_notes' }],
  ['telegram', ' https://t.me/field_notes/42 ', { kind: 'name', name: 'field_notes' }],
  ['telegram', 'https://t.me/c/1234567890/42', { kind: 'id', id: '-1001234567890' }],
  ['telegram', 'https://t.me/+AbCdEf', undefined],
  ['telegram', '-1001234567890', undefined],
  ['telegram', 'https://t.me.evil.example/field_notes', undefined],
  ['telegram', `@${'x'.repeat(1000)}`, undefined],
  ['max', 'https://max.ru/field-notes', { kind: 'name', name: 'field-notes' }],
  ['max', 'https://max.ru/join/abc', undefined],
  ['max', '@a/../../me', undefined],
] as const)('%s: %j names %j', (messenger, text, expected) => {
  expect(readChannelReference(messenger, text)).toEqual(expected)
})

test('a payload fits every messenger, and others are none of ours', () => {
  const nonce = 'A'.repeat(32)
  const text = startPayload({ purpose: 'login', nonce })
  expect([text.length <= 64, readStartPayload(text)]).toEqual([true, { purpose: 'login', nonce }])
  for (const other of ['', 'l', nonce, `x${nonce}`, `l${nonce}A`, `l${nonce.slice(1)}=`])
    expect(readStartPayload(other)).toBeUndefined()
})
