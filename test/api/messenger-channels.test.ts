import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { maxChannelsPerProject } from '../../core/messengers.ts'
import { registerHooks } from '../../services/messengers/hooks.ts'
import { keptLog } from '../kept-log.ts'
import { operatorToken, type TestProject, type World, world } from '../world.ts'
import { connect, lastAnswer, linkOf, listed, type Messenger, makeSubscribersSite, newPerson, opens } from './messenger-site.ts'

const { log, written } = keptLog()
let w: World
let owner: TestProject
let stranger: TestProject
beforeAll(async () => {
  w = await world({ log })
  await registerHooks(w)
})
afterAll(() => w?.[Symbol.asyncDispose]())
beforeEach(async () => {
  owner = await w.project()
  stranger = await w.project()
  for (const messenger of ['telegram', 'max'] as const) w[messenger].fault = undefined
})

const count = async () => (await listed(w, owner)).length

describe.each(['telegram', 'max'] as const)('W03: %s', (messenger: Messenger) => {
  const names = { telegram: 'news', max: 'news_of_max' }

  test('an administrator connects a channel by forwarding one of its messages, and J02 lists it', async () => {
    const channel = w[messenger].channel()
    const person = newPerson()
    channel.roles.set(person, 'administrator')
    await opens(w, messenger, person, await linkOf(w, owner, messenger))
    expect(lastAnswer(w, messenger, person)).toContain('project on pro')
    await w[messenger].forwards(w.base, person, channel)
    expect(await listed(w, owner)).toEqual([
      { id: expect.any(String), provider: messenger, title: channel.title, username: null, url: null, bot_is_admin: true },
    ])
    const shown = await w.tool('list_messenger_channels', {}, owner.key)
    expect(JSON.parse(shown.content[0]?.text ?? '')).toEqual(await listed(w, owner))
    expect(await listed(w, stranger)).toEqual([])
  })

  test('a public channel is connected by its name', async () => {
    const username = names[messenger]
    const channel = w[messenger].channel({ username })
    const person = newPerson()
    channel.roles.set(person, 'owner')
    await opens(w, messenger, person, await linkOf(w, owner, messenger))
    await w[messenger].says(w.base, person, `@${username}`)
    const url = `${messenger === 'telegram' ? 'https://t.me' : 'https://max.ru'}/${username}`
    expect(await listed(w, owner)).toMatchObject([{ title: channel.title, username, url }])
  })

  test('who is no administrator of the channel connects nothing', async () => {
    const channel = w[messenger].channel()
    const [member, nobody] = [newPerson(), newPerson()]
    channel.roles.set(member, 'member')
    for (const person of [member, nobody]) {
      await opens(w, messenger, person, await linkOf(w, owner, messenger))
      await w[messenger].forwards(w.base, person, channel)
      expect(lastAnswer(w, messenger, person)).toMatch(/administrators|администраторами/)
    }
    expect(await count()).toBe(0)
  })

  test.each(['@no_such_channel', 'hello', 'https://evil.example/news', '@../me', ''])('%j names no channel', async (text) => {
    const person = newPerson()
    await opens(w, messenger, person, await linkOf(w, owner, messenger))
    await w[messenger].says(w.base, person, text)
    expect(lastAnswer(w, messenger, person)).toMatch(/names no channel|не видит такого канала/)
  })

  test.each(['member', 'none'] as const)('a channel whose bot is %s is not connected', async (botRole) => {
    const channel = w[messenger].channel({ botRole })
    const person = newPerson()
    channel.roles.set(person, 'owner')
    await opens(w, messenger, person, await linkOf(w, owner, messenger))
    await w[messenger].forwards(w.base, person, channel)
    expect(await count()).toBe(0)
  })

  test('a link works once, for the first who opens it, for 15 minutes', async () => {
    const channel = w[messenger].channel()
    const [first, second] = [newPerson(), newPerson()]
    for (const person of [first, second]) channel.roles.set(person, 'owner')
    const link = await linkOf(w, owner, messenger)
    await opens(w, messenger, first, link)
    await opens(w, messenger, second, link)
    expect(lastAnswer(w, messenger, second)).toContain('used')
    await w[messenger].forwards(w.base, second, channel)
    expect(await count()).toBe(0)
    await w[messenger].forwards(w.base, first, channel)
    expect(await count()).toBe(1)
    const another = w[messenger].channel()
    another.roles.set(first, 'owner')
    await w[messenger].forwards(w.base, first, another)
    expect(await count()).toBe(1)
    await opens(w, messenger, first, await linkOf(w, owner, messenger))
    w.advance(15 * 60_000 + 1)
    await w[messenger].forwards(w.base, first, another)
    expect(await count()).toBe(1)
  })

  test('while the messenger does not answer, its answer is no channel and no link', async () => {
    const channel = w[messenger].channel()
    const person = newPerson()
    channel.roles.set(person, 'owner')
    await opens(w, messenger, person, await linkOf(w, owner, messenger))
    for (const fault of ['broken', 'garbage'] as const) {
      w[messenger].fault = fault
      expect(await w[messenger].forwards(w.base, person, channel)).toBe(200)
    }
    expect(await count()).toBe(0)
    w[messenger].fault = undefined
    await w[messenger].forwards(w.base, person, channel)
    expect(await count()).toBe(1)
  })

  test('a wrong path or secret of the webhook is a 404, and changes nothing', async () => {
    const person = newPerson()
    const update = { update_id: 1, update_type: 'bot_started' }
    const path = new URL(w[messenger].webhook?.url ?? '').pathname
    const other = messenger === 'telegram' ? 'max' : 'telegram'
    const wrong = [
      { secret: '' },
      { secret: w[other].webhook?.secret ?? '' },
      { path: `${path}x` },
      { path: `/hooks/${messenger}/x` },
      { path: new URL(w[other].webhook?.url ?? '').pathname },
    ]
    for (const options of wrong) expect(await w[messenger].call(w.base, update, options)).toBe(404)
    expect(lastAnswer(w, messenger, person)).toBe('')
  })

  test.each([
    ['nothing that is known', {}],
    ['lists', { message: [], update_type: ['message_created'] }],
    [
      'numbers without digits',
      { message: { chat: { id: 2 ** 60, type: 'private' }, from: { id: 1.5, is_bot: false }, text: '/start' } },
    ],
    ['nulls', { message: null, update_type: 'message_created', user: null }],
  ])('an update with %s is answered with 200', async (_what, update) => {
    const { length } = w[messenger].sent
    expect(await w[messenger].call(w.base, update)).toBe(200)
    expect(w[messenger].sent).toHaveLength(length)
  })

  test.each([
    ['of more than 64 KB', { text: 'x'.repeat(70_000) }],
    ['with too many values', { list: Array.from({ length: 6000 }, () => 0) }],
  ])('an update %s is ignored, so that it is not repeated', async (_what, extra) => {
    const person = newPerson()
    const message = { chat: { id: person, type: 'private' }, from: { id: person, is_bot: false }, text: 'hello' }
    const sender = { user_id: person, first_name: 'Ada', is_bot: false }
    const max = { sender, recipient: { chat_type: 'dialog' }, body: { text: 'hello' } }
    const update = { update_type: 'message_created', message: { ...message, ...max } }
    expect(await w[messenger].call(w.base, { ...update, extra })).toBe(200)
    expect(lastAnswer(w, messenger, person)).toBe('')
    expect(await w[messenger].call(w.base, update)).toBe(200)
    expect(lastAnswer(w, messenger, person)).not.toBe('')
  })
})

test('E20: bot_is_admin follows what becomes of the bot, in every project that has the channel', async () => {
  const [telegram, max] = [w.telegram.channel(), w.max.channel()]
  for (const project of [owner, stranger]) await connect(w, project, 'telegram', telegram)
  await connect(w, owner, 'max', max)
  await connect(w, owner, 'telegram', w.telegram.channel())
  const shown = async (project: TestProject) => (await listed(w, project)).map(({ bot_is_admin }) => bot_is_admin)
  expect(await w.telegram.changesBot(w.base, telegram, 'left')).toBe(200)
  expect([await shown(owner), await shown(stranger)]).toEqual([[false, true, true], [false]])
  await w.max.removesBot(w.base, max)
  await w.telegram.changesBot(w.base, telegram, 'administrator')
  expect([await shown(owner), await shown(stranger)]).toEqual([[true, false, true], [true]])
})

test('E37: a project has at most 20 channels, of which each is connected once', async () => {
  const rows = Array.from({ length: maxChannelsPerProject - 1 }, (_, i) => ({
    project_id: owner.id,
    provider: 'max' as const,
    external_id: `-${i}`,
    title: 'x',
    bot_is_admin: true,
    connected_at: new Date(),
  }))
  await w.db.insertInto('messenger_channels').values(rows).execute()
  const channel = w.telegram.channel()
  await connect(w, owner, 'telegram', channel)
  channel.title = 'Another title'
  await expect(connect(w, owner, 'telegram', channel)).rejects.toThrow('is connected')
  await expect(connect(w, owner, 'telegram', w.telegram.channel())).rejects.toThrow('too many channels')
  const all = await listed(w, owner)
  expect([all.length, all.at(-1)?.title]).toEqual([20, 'Another title'])
})

test('E37: of the links of a project only the newest five work', async () => {
  const links: string[] = []
  for (let i = 0; i < 6; i++) links.push(await linkOf(w, owner, 'telegram'))
  const answers: boolean[] = []
  for (const link of links) {
    const person = newPerson()
    await opens(w, 'telegram', person, link)
    answers.push(lastAnswer(w, 'telegram', person).includes('used'))
  }
  expect(answers).toEqual([true, false, false, false, false, false])
})

test('E37: a messenger that is not set up is a conflict, and one that is away is unavailable', async () => {
  await using other = await world({ env: { PLINTH_MAX_BOT_TOKEN: '' } })
  const project = await other.project()
  const ask = (provider: string) => other.call('POST /api/v1/messenger-channels', { key: project.key, json: { provider } })
  expect((await ask('max')).status).toBe(409)
  other.telegram.fault = 'overloaded'
  const away = await ask('telegram')
  expect([away.status, away.headers.get('retry-after')]).toEqual([503, '60'])
  expect((await ask('icq')).status).toBe(422)
})

test('M01: a site lets in the subscribers of one to three own channels', async () => {
  const ids: string[] = []
  for (let i = 0; i < 4; i++) ids.push(await connect(w, owner, 'telegram', w.telegram.channel()))
  const [a = '', b = '', c = ''] = ids
  const foreign = await connect(w, stranger, 'max', w.max.channel())
  const site = await makeSubscribersSite(w, owner, [a, b, c])
  const shown = (await site.close([c, a, a])).body
  expect([shown.mode, shown.channels]).toEqual(['subscribers', [a, c].sort()])
  for (const wrong of [[], ids, ['x']]) expect([wrong, (await site.close(wrong)).status]).toEqual([wrong, 422])
  const nowhere = crypto.randomUUID()
  const [absent, theirs] = [await site.close([a, nowhere]), await site.close([a, foreign])]
  expect([absent.status, absent.body]).toEqual([404, theirs.body])
  expect((await w.call(`GET /api/v1/sites/${site.id}/access`, { key: owner.key })).body.channels).toEqual([a, c].sort())
})

test('M01: the mode needs the Pro plan', async () => {
  const channel = await connect(w, owner, 'telegram', w.telegram.channel())
  const site = await makeSubscribersSite(w, owner, [channel])
  await w.call(`PATCH /operator/v1/projects/${owner.id}`, { key: operatorToken, json: { plan: 'start' } })
  const refused = await site.close([channel])
  expect([refused.status, refused.body.message]).toEqual([402, expect.stringContaining('Pro')])
})

test('M01: taking a channel away signs out everybody, and adding one nobody', async () => {
  const [a, b] = [await connect(w, owner, 'telegram', w.telegram.channel()), await connect(w, owner, 'max', w.max.channel())]
  const site = await makeSubscribersSite(w, owner, [a])
  const epoch = async () =>
    (await w.db.selectFrom('access_locks').select('epoch').where('site_id', '=', site.id).executeTakeFirstOrThrow()).epoch
  const first = await epoch()
  await site.close([a, b])
  expect(await epoch()).toBe(first)
  await site.close([b])
  expect(await epoch()).not.toBe(first)
})

test('E37: a channel that a site uses is not disconnected, and the refusal names the site', async () => {
  const channel = await connect(w, owner, 'telegram', w.telegram.channel())
  const site = await makeSubscribersSite(w, owner, [channel])
  const disconnect = (key: string) => w.call(`DELETE /api/v1/messenger-channels/${channel}`, { key })
  expect((await disconnect(stranger.key)).status).toBe(404)
  const refused = await disconnect(owner.key)
  expect([refused.status, refused.body.message]).toEqual([409, expect.stringContaining('"A site"')])
  await w.call(`PUT /api/v1/sites/${site.id}/access`, { key: owner.key, json: { level: 'easy' } })
  expect((await disconnect(owner.key)).status).toBe(200)
  expect([await listed(w, owner), (await disconnect(owner.key)).status]).toEqual([[], 404])
})

test('E37: a suspended project connects nothing', async () => {
  const link = await linkOf(w, owner, 'telegram')
  const [person, channel] = [newPerson(), w.telegram.channel()]
  channel.roles.set(person, 'owner')
  await opens(w, 'telegram', person, link)
  await w.call(`PATCH /operator/v1/projects/${owner.id}`, { key: operatorToken, json: { suspended: true } })
  await w.telegram.forwards(w.base, person, channel)
  expect(lastAnswer(w, 'telegram', person)).toContain('suspended')
  expect((await w.call('POST /api/v1/messenger-channels', { key: owner.key, json: { provider: 'max' } })).status).toBe(402)
})

test('the bot answers a person at most 30 times an hour', async () => {
  const person = newPerson()
  for (let i = 0; i < 32; i++) await w.telegram.says(w.base, person, 'hello')
  expect(w.telegram.sent.filter(({ to }) => to === person)).toHaveLength(30)
})

test('no log line has a token, a secret, a link or a person', async () => {
  const [person, channel] = [newPerson() * 1_000_003, w.telegram.channel()]
  channel.roles.set(person, 'owner')
  const link = await linkOf(w, owner, 'telegram')
  await opens(w, 'telegram', person, link)
  w.telegram.fault = 'broken'
  await w.telegram.forwards(w.base, person, channel)
  w.telegram.fault = undefined
  await w.telegram.forwards(w.base, person, channel)
  const lines = written.join('')
  expect(lines).toContain('messenger channel connected')
  const secrets = [w.telegram, w.max].flatMap(({ token, webhook }) => [token, webhook?.secret, webhook?.url.split('/').at(-1)])
  for (const secret of [...secrets, link.split('=c')[1], String(person)])
    expect([secret, lines.includes(secret ?? '')]).toEqual([secret, false])
})
