import { randomBytes } from 'node:crypto'
import { Packet } from 'dns2'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { takeLookUp } from '../../services/domains/domains.ts'
import { openDomainLookUp } from '../../services/domains/look-up.ts'
import { type Handler, type Query, reply } from '../infra/dns-server.ts'
import { makeSite } from '../make.ts'
import { type TestProject, type World, world } from '../world.ts'
import { startZone, type Zone } from '../zone.ts'

/** A busy machine may be late once. */
const bestOfThree = { retry: 2 }

// What verify_domain answers while name servers misbehave, and how often it asks them.

const { TYPE } = Packet
const intervalMs = 10_000
const maxMs = 5000

let zone: Zone
let w: World
let owner: TestProject
let site: any
beforeAll(async () => {
  zone = await startZone()
  w = await world({ worker: false, env: { PLINTH_DNS_SERVERS: zone.address } })
  owner = await w.project('enterprise')
  site = await makeSite(w, owner)
})
afterAll(async () => {
  await w?.[Symbol.asyncDispose]()
  await zone?.[Symbol.asyncDispose]()
})
afterEach(() => zone.misbehave(undefined))

async function added(project = owner, siteId = site.id): Promise<any> {
  const json = { domain: `d${randomBytes(5).toString('hex')}.example.com` }
  return (await w.call(`POST /api/v1/sites/${siteId}/domains`, { key: project.key, json })).body
}

async function timedVerify(id: string) {
  const startedAt = performance.now()
  const answer = await w.call(`POST /api/v1/domains/${id}/verify`, { key: owner.key })
  return { ...answer, ms: performance.now() - startedAt }
}

const txt = (...data: string[]) => ({ type: TYPE.TXT, data })
/** A record of the name that was asked for; dns2 takes seconds to write so many. */
const rawTxt = (...chunks: string[]) => {
  const data = Buffer.concat(chunks.map((chunk) => Buffer.from([chunk.length, ...Buffer.from(chunk)])))
  return Buffer.concat([Buffer.from([0xc0, 12, 0, TYPE.TXT, 0, 1, 0, 0, 0, 60, data.length >> 8, data.length & 255]), data])
}
const withRecords = (query: Query, records: Buffer[]) => {
  const message = Buffer.concat([reply(query), ...records])
  message.writeUInt16BE(records.length, 6)
  return message
}
const overTcp =
  (make: (query: Query) => Buffer): Handler =>
  (query) =>
    query.over === 'udp' ? reply(query, { truncated: true }) : make(query)

const hostile: [string, Handler][] = [
  ['never answers', () => undefined],
  ['answers SERVFAIL', (query) => reply(query, { rcode: 2 })],
  ['answers with a wrong id', (query) => reply(query, { id: query.packet.header.id ^ 1, answers: [txt('x')] })],
  ['is truncated and silent over TCP', (query) => (query.over === 'udp' ? reply(query, { truncated: true }) : undefined)],
  ['is truncated over TCP as well', (query) => reply(query, { truncated: true })],
  ['lets CNAME records lead in a circle', (query) => reply(query, { answers: [{ type: TYPE.CNAME, domain: query.name }] })],
  [
    'lets CNAME records go on for ever',
    (query) => reply(query, { answers: [{ type: TYPE.CNAME, domain: `a${query.name}`.slice(-60) }] }),
  ],
  ['sends 64 KiB of noise', overTcp(({ bytes }) => Buffer.concat([bytes.subarray(0, 2), randomBytes(65_533)]))],
  ['sends 64 KiB of zeros', overTcp((query) => Buffer.concat([reply(query), Buffer.alloc(60_000)]))],
  ['sends noise', () => randomBytes(600)],
]

describe('check 31: verify_domain answers within 5 s and never with a 500 when the name server', () => {
  test.each(hostile)('%s', bestOfThree, async (_what, handle) => {
    const { id } = await added()
    zone.misbehave(handle)
    const { status, body, ms } = await timedVerify(id)
    expect([status, body.verified]).toEqual([200, false])
    expect(body.message).toMatch(/the name servers did not tell|there is no TXT record/)
    expect(body.a_record.ok).toBe(false)
    expect(ms).toBeLessThan(maxMs)
  })

  test('sends the token in many chunks, among 64 KiB of other records', bestOfThree, async () => {
    const { id, verification_token } = await added()
    const others = Array.from({ length: 240 }, (_, index) => rawTxt(`${index}`.padStart(250, 'x')))
    const records = [...others, rawTxt(...(verification_token.match(/.{1,3}/g) ?? []))]
    zone.misbehave(overTcp((query) => (query.type === TYPE.TXT ? withRecords(query, records) : reply(query))))
    const { status, body, ms } = await timedVerify(id)
    expect([status, body.verified, ms < maxMs]).toEqual([200, true, true])
    const [proof] = body.diagnostics
    expect(proof.found.length).toBeLessThanOrEqual(20)
  })

  test(
    'does not answer for a verified domain: it stays verified, and the message tells that nothing is known',
    bestOfThree,
    async () => {
      const { id, txt: record } = await added()
      zone.set('TXT', record.name, record.value)
      expect((await timedVerify(id)).body.verified).toBe(true)
      zone.misbehave(() => undefined)
      w.advance(intervalMs)
      const { status, body, ms } = await timedVerify(id)
      expect([status, body.verified, ms < maxMs]).toEqual([200, true, true])
      expect(body.message).toContain('did not tell whether there is a TXT record')
      expect(body.diagnostics).toContainEqual(expect.objectContaining({ check: 'name_servers', ok: false }))
    },
  )
})

describe('the throttle', () => {
  test('N05: of many calls at once over two api processes exactly one asks the name servers', async () => {
    const bases = [w.base, await w.openSecondApi()]
    for (let round = 0; round < 5; round++) {
      const { id, txt: record } = await added()
      const answers = await Promise.all(
        Array.from({ length: 20 }, async (_, index) => {
          const headers = { authorization: `Bearer ${owner.key}` }
          const response = await fetch(`${bases[index % 2]}/api/v1/domains/${id}/verify`, { method: 'POST', headers })
          return { status: response.status, retryAfter: Number(response.headers.get('retry-after')) }
        }),
      )
      expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(429)])
      for (const { status, retryAfter } of answers) if (status === 429) expect(retryAfter).toBeLessThanOrEqual(10)
      expect(zone.asked.filter((asked) => asked === `udp ${record.name}`)).toHaveLength(1)
    }
  })

  test('N05: a look-up is possible again when the interval has passed, and not a moment before', async () => {
    const { id } = await added()
    expect((await timedVerify(id)).status).toBe(200)
    const { looked_up_at } = await w.db
      .selectFrom('domains')
      .select('looked_up_at')
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    const at = (ms: number) => takeLookUp(w.db, owner.id, id, new Date((looked_up_at?.getTime() ?? 0) + ms), intervalMs)
    expect(await at(intervalMs - 1)).toBe(false)
    expect(await at(-60_000)).toBe(true)
    expect(await at(-60_000 + intervalMs)).toBe(true)
  })
})

describe('several name servers', () => {
  test('check 31: a record that only one of them has is no proof, and the diagnostics say that they disagree', async () => {
    await using second = await startZone()
    await using two = await world({ worker: false, env: { PLINTH_DNS_SERVERS: `${zone.address},${second.address}` } })
    const project = await two.project('enterprise')
    const { id: siteId } = await makeSite(two, project)
    const call = async (endpoint: string, json?: object) =>
      (await two.call(endpoint, { key: project.key, ...(json && { json }) })).body
    const record = await call(`POST /api/v1/sites/${siteId}/domains`, { domain: 'agreed.example.com' })
    zone.set('TXT', record.txt.name, record.txt.value)
    const first = await call(`POST /api/v1/domains/${record.id}/verify`)
    expect(first).toMatchObject({ verified: false, message: expect.stringContaining('a change is spreading') })
    expect(first.diagnostics).toContainEqual(expect.objectContaining({ check: 'name_servers', ok: false }))
    second.set('TXT', record.txt.name, record.txt.value)
    two.advance(intervalMs)
    const both = await call(`POST /api/v1/domains/${record.id}/verify`)
    expect(both.verified).toBe(true)
    expect(both.diagnostics).toContainEqual(expect.objectContaining({ check: 'name_servers', ok: true }))
  })
})

describe('port 80', () => {
  const domain = { domain: 'reach.example.com', verification_token: 'token' }
  const lookUp = (checkReach: (name: string) => Promise<{ ok: boolean; message: string }>) =>
    openDomainLookUp(w.config, { findIssuers: async () => ['ca.example'], checkReach })(domain)
  const port80 = async (...parts: Parameters<typeof lookUp>) =>
    (await lookUp(...parts)).diagnostics.find(({ check }) => check === 'port_80')

  test('N06: our own token is asked for, and a fault of that is told and blocks nothing', bestOfThree, async () => {
    expect(await port80(async (name) => ({ ok: true, message: name }))).toMatchObject({ ok: true, message: domain.domain })
    expect(await port80(() => Promise.reject(new Error('broken')))).toMatchObject({
      ok: false,
      message: expect.stringContaining('broken'),
    })
    const startedAt = performance.now()
    expect(await port80(() => new Promise(() => undefined))).toMatchObject({
      ok: false,
      message: expect.stringContaining('within 4 s'),
    })
    expect(performance.now() - startedAt).toBeLessThan(maxMs)
  })

  test('N06: CAA records that forbid the certificate are told with what to add', async () => {
    zone.set('CAA', 'reach.example.com', 'issue other.example')
    const { diagnostics } = await lookUp(async () => ({ ok: true, message: '' }))
    expect(diagnostics.find(({ check }) => check === 'caa')).toMatchObject({
      ok: false,
      message: expect.stringContaining('ca.example'),
    })
  })
})

describe('names that only the network of the platform has', () => {
  const names: [string, (name: string) => void][] = [
    ['a private address', (name) => zone.set('A', name, '10.0.0.7')],
    ['the address of the metadata service', (name) => zone.set('A', name, '169.254.169.254')],
    ['a loopback address', (name) => zone.set('A', name, '127.0.0.9')],
    ['a shared address', (name) => zone.set('A', name, '100.64.0.9')],
    ['a private IPv6 address', (name) => zone.set('AAAA', name, 'fd00::7')],
    ['a mapped address', (name) => zone.set('AAAA', name, '::ffff:10.0.0.7')],
    [
      'an alias',
      (name) => {
        zone.set('CNAME', name, 'db-primary.internal.example')
        zone.set('A', 'db-primary.internal.example', '192.168.3.4')
      },
    ],
  ]
  /** With the checks that the platform has in production. */
  const lookUpOf = (domain: string) => openDomainLookUp(w.config)({ domain, verification_token: 'token' })
  const newName = () => `d${randomBytes(5).toString('hex')}.corp.example`

  test.each(names)('look like unknown names: %s', async (_what, give) => {
    const [known, unknown] = [newName(), newName()]
    give(known)
    const [found, absent] = await Promise.all([lookUpOf(known), lookUpOf(unknown)])
    expect(JSON.parse(JSON.stringify(found).replaceAll(known, unknown))).toEqual(JSON.parse(JSON.stringify(absent)))
  })

  test('do not hide the public addresses of a name, nor those of this platform', async () => {
    const domain = newName()
    zone.set('A', domain, '10.0.0.7', '1.1.1.1', '198.51.100.7', '127.0.0.1')
    expect((await openDomainLookUp(w.config, {})({ domain, verification_token: 'token' })).a_record.found.toSorted()).toEqual([
      '1.1.1.1',
      '127.0.0.1',
      '198.51.100.7',
    ])
  })
})
