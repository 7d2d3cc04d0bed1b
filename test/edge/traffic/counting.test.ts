import { expect, test } from 'vitest'
import type { SiteTraffic, TopKind, TrafficBatch } from '../../../core/traffic.ts'
import { createClassifier } from '../../../edge/traffic/classify.ts'
import { type Hit, hitFlags } from '../../../edge/traffic/hit.ts'
import { createPrograms } from '../../../edge/traffic/programs.ts'
import { createSalts } from '../../../edge/traffic/salts.ts'
import { createTally } from '../../../edge/traffic/tally.ts'
import { createVisitors } from '../../../edge/traffic/visitors.ts'
import { chrome, type HitPart, hitOf, iphone } from './hits.ts'

function openCounter(salts = createSalts(Date.now)) {
  const visitors = createVisitors(salts)
  const classify = createClassifier(createPrograms(), visitors)
  return (hits: readonly Hit[]): TrafficBatch => {
    const tally = createTally()
    for (const { request, atMs, bytes } of hits) tally.add(classify(request, atMs, bytes))
    return tally.batch(1, visitors)
  }
}

const count = (...hits: HitPart[]) => openCounter()(hits.map(hitOf))
const site = ({ sites: [first] }: TrafficBatch): SiteTraffic => {
  if (!first) throw new Error('nothing was counted')
  return first
}
const topsOf = ({ tops }: SiteTraffic, kind: TopKind) =>
  Object.fromEntries(tops.filter((top) => top.kind === kind).map(({ value, hits, visitors }) => [value, [hits, visitors.length]]))
const { page, download, head, acceptsLanguage, prefetch } = hitFlags
const bots = (...hits: HitPart[]) => topsOf(site(count(...hits)), 'bot_reason')

test('K02: a browser is a person, with its bytes', () => {
  expect(site(count({}, { flags: acceptsLanguage, bytes: 7 }))).toMatchObject({
    views: 1,
    human_views: 1,
    bytes: 107,
    human_bytes: 107,
    visitors: [expect.stringMatching(/^[0-9a-f]{24}$/)],
    human_visitors: [expect.stringMatching(/^[0-9a-f]{24}$/)],
  })
})

test.each([
  ['curl', { userAgent: 'curl/8.5.0' }, 'ua_bot'],
  ['a crawler without Accept-Language', { userAgent: 'Googlebot/2.1', flags: page }, 'ua_bot'],
  ['no User-Agent', { userAgent: '' }, 'no_ua'],
  ['no Accept-Language', { flags: page }, 'no_accept_language'],
  ['a page that is fetched before it is opened', { flags: page | acceptsLanguage | prefetch }, 'prefetch'],
] as const)('K02 K04: %s is no person', (_name, hit, reason) => {
  const counted = site(count(hit))
  expect(counted).toMatchObject({ views: 1, human_views: 0, bytes: 100, human_bytes: 0, human_visitors: [] })
  expect(counted.visitors).toHaveLength(1)
  expect(topsOf(counted, 'bot_reason')).toEqual({ [reason]: [1, 1] })
})

test('K02: who looks for weaknesses is no person for the rest of the day, at that site', () => {
  const probe = { target: '/wp-login.php', status: 404, flags: acceptsLanguage }
  expect(bots({}, probe, {}, {}, { address: '192.0.2.2' })).toEqual({ probe_path: [2, 1] })
  const next = { atMs: Date.parse('2026-03-01T21:00:00Z') }
  expect(count(probe, next).sites.map(({ human_views }) => human_views)).toEqual([0, 1])
})

test('K02: more than ten pages within a second are too fast', () => {
  const hits = Array.from({ length: 12 }, (_, n) => ({ target: `/${n}` }))
  expect(bots(...hits)).toEqual({ too_fast: [2, 1] })
  expect(bots(...hits.map((hit, n) => ({ ...hit, atMs: n * 200 })))).toEqual({})
})

test('K02: HEAD counts nothing', () => {
  expect(count({ flags: page | head | acceptsLanguage, bytes: 0 }).sites).toEqual([])
})

test('K04: pages, sources and devices add up to the views', () => {
  const counted = site(
    count(
      { target: '/a?x=1' },
      { target: '/a?x=2', referer: 'https://news.test/item' },
      { target: '/b', referer: 'https://site.plinth.test/a' },
      { target: '/b', userAgent: iphone, address: '192.0.2.2' },
    ),
  )
  expect(topsOf(counted, 'page')).toEqual({ '/a': [2, 1], '/b': [2, 2] })
  expect(topsOf(counted, 'source')).toEqual({ '(direct)': [3, 2], 'news.test': [1, 1] })
  expect(topsOf(counted, 'device')).toEqual({ desktop: [3, 1], mobile: [1, 1] })
})

test('K04: from one host of a site to another is no source', () => {
  const hits = [{ host: 'own.test' }, { host: 'site.plinth.test', referer: 'https://own.test/' }]
  expect(topsOf(site(count(...hits)), 'source')).toEqual({ '(direct)': [2, 1] })
})

test('K04: downloads and missing pages have tops of their own', () => {
  const counted = site(
    count(
      { target: '/price.pdf', flags: download | acceptsLanguage },
      { target: '/price.pdf', flags: download | acceptsLanguage, status: 206 },
      { target: '/gone', flags: acceptsLanguage, status: 404 },
    ),
  )
  expect(counted.views).toBe(0)
  expect(topsOf(counted, 'download')).toEqual({ '/price.pdf': [1, 1] })
  expect(topsOf(counted, 'not_found')).toEqual({ '/gone': [1, 1] })
})

test('K04: more values than a site keeps are one', () => {
  const counted = site(count(...Array.from({ length: 1500 }, (_, n) => ({ target: `/${n}` }))))
  const pages = topsOf(counted, 'page')
  expect(Object.keys(pages)).toHaveLength(1001)
  expect(pages['(other)']).toEqual([500, 1])
})

test('K02: a visitor is sent once a day, although the hits are in several segments', () => {
  const counter = openCounter()
  const batches = [hitOf(), hitOf(), hitOf({ atMs: Date.parse('2026-03-01T21:00:00Z') })].map((hit) => counter([hit]))
  expect(batches.map((batch) => site(batch).visitors.length)).toEqual([1, 0, 1])
  expect(new Set(batches.flatMap((batch) => site(batch).visitors)).size).toBe(2)
})

test('K02: two edges with the same salt see the same visitor, and another salt another one', () => {
  const salt = new Map([['2026-03-01', Buffer.alloc(32, 1)]])
  const [one, two, other] = [createSalts(Date.now, salt), createSalts(Date.now, salt), createSalts(Date.now)].map(
    (salts) => site(openCounter(salts)([hitOf()])).visitors,
  )
  expect(one).toEqual(two)
  expect(one).not.toEqual(other)
})

test('K07: hits around midnight in Moscow belong to two days', () => {
  const at = (time: string) => ({ atMs: Date.parse(`2026-03-01T${time}Z`) })
  const { sites, live } = count(at('20:59:00'), at('21:01:00'), at('21:02:00'))
  expect(sites.map(({ day, views }) => [day, views])).toEqual([
    ['2026-03-01', 1],
    ['2026-03-02', 2],
  ])
  expect(live).toMatchObject([{ paths: [{ path: '/', hits: 3 }] }])
})

test('K02: neither an address nor a User-Agent is in a segment', () => {
  const text = JSON.stringify(count({}, { target: '/x', status: 404, flags: acceptsLanguage }))
  expect(text).not.toContain('192.0.2.1')
  expect(text).not.toContain(chrome.slice(0, 11))
})

test('K02: of so many programs that nobody could have, those beyond the first are not looked at', () => {
  const programs = createPrograms()
  const bots = Array.from({ length: 7000 }, (_, n) => programs.of(`bot ${n}`).isBot)
  expect([bots.indexOf(false), bots.lastIndexOf(true)]).toEqual([5500, 5499])
  programs.startPeriod()
  expect(programs.of('bot 6999').isBot).toBe(true)
  expect(programs.of('bot 1').isBot).toBe(true)
})

test('K04: while somebody invents programs, the devices and bots of others are still told apart', () => {
  const programs = createPrograms()
  for (let n = 0; n < 1000; n++) programs.of(`Mozilla/5.0 invented/${n}`)
  const devices = [chrome, iphone, ipad, android, androidTablet, smartTv, 'Googlebot/2.1'].map((one) => programs.of(one).device)
  expect(devices).toEqual(['desktop', 'mobile', 'tablet', 'mobile', 'tablet', 'tv', 'bot'])
  const alone = [chrome, iphone, ipad, android, androidTablet, smartTv].map((one) => createPrograms().of(one).device)
  expect(devices.slice(0, -1)).toEqual(alone)
})

const webKit = 'AppleWebKit/537.36 (KHTML, like Gecko)'
const ipad =
  'Mozilla/5.0 (iPad; CPU OS 16_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/16.5 Mobile/15E148 Safari/604.1'
const android = `Mozilla/5.0 (Linux; Android 13; SM-S901B) ${webKit} Chrome/112.0.0.0 Mobile Safari/537.36`
const androidTablet = `Mozilla/5.0 (Linux; Android 13; SM-X906C) ${webKit} Chrome/112.0.0.0 Safari/537.36`
const smartTv = `Mozilla/5.0 (SMART-TV; Linux; Tizen 6.0) ${webKit} SamsungBrowser/2.2 Chrome/63.0.3239.84 TV Safari/537.36`
