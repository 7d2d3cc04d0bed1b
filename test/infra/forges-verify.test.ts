import { createHmac, randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { makeWebhookSecret } from '../../infra/crypto/webhook-signatures.ts'
import { verifyDelivery } from '../../infra/forges/verify.ts'
import { changeProof, readWebhook, type Webhook, webhookNames, webhookSecret, webhookSentAt } from './forges-fixtures.ts'

interface Given extends Webhook {
  readonly secret?: string
  readonly now?: Date
}

const verify = ({ headers, raw, secret = webhookSecret, now = webhookSentAt }: Given) =>
  verifyDelivery({ headers, raw: Buffer.from(raw), secret, now })
const passes = (given: Given) => verify(given).ok

const isToken = ({ headers }: Webhook) => 'x-gitlab-token' in headers || 'x-svc-token' in headers
const isSigned = (webhook: Webhook) => !isToken(webhook)
const inAnotherForm = (raw: string) => (raw.startsWith('{') ? JSON.stringify(JSON.parse(raw), null, 3) : decodeURIComponent(raw))

describe('G04: a delivery with the secret of its webhook passes, its forged twins do not', () => {
  test.each(webhookNames)('%s', (name) => {
    const webhook = readWebhook(name)
    expect(verify(webhook)).toMatchObject({ ok: true })
    const twins: [string, Given][] = [
      ['unsigned', changeProof(webhook, () => undefined)],
      ['with nothing as proof', changeProof(webhook, () => '')],
      ['with a proof that was cut', changeProof(webhook, (value) => value.slice(0, -1))],
      ['with a longer proof', changeProof(webhook, (value) => `${value}0`)],
      [
        'with another proof',
        changeProof(webhook, (value) =>
          value.replace(/.(.{3})$/, (end) => (end[0] === '1' ? `2${end.slice(1)}` : `1${end.slice(1)}`)),
        ),
      ],
      ['with the proof of a rotated secret', { ...webhook, secret: makeWebhookSecret() }],
      ['when there is no secret', { ...webhook, secret: '' }],
      ['when the secret is of another form', { ...webhook, secret: 'whsec_' }],
    ]
    if (isSigned(webhook)) {
      twins.push(['with another body', { ...webhook, raw: `${webhook.raw} ` }])
      twins.push(['with the same JSON in another form', { ...webhook, raw: inAnotherForm(webhook.raw) }])
      twins.push(['in other case', changeProof(webhook, (value) => value.toUpperCase())])
      twins.push(['with another algorithm named', changeProof(webhook, (value) => value.replace(/^(sha256=|v1,)?/, 'sha1='))])
      twins.push([
        'with or without a prefix',
        changeProof(webhook, (value) => (/^(sha256=|v1,)/.test(value) ? value.replace(/^(sha256=|v1,)/, '') : `sha256=${value}`)),
      ])
    }
    for (const [title, twin] of twins) expect([title, passes(twin)]).toEqual([title, false])
  })

  test('the signatures are those that node:crypto makes too', () => {
    const { headers, raw } = readWebhook('github-push')
    expect(headers['x-hub-signature-256']).toBe(`sha256=${createHmac('sha256', webhookSecret).update(raw).digest('hex')}`)
  })

  const github = readWebhook('github-push')
  const bitbucket = readWebhook('bitbucket-push')
  const gitlab = readWebhook('gitlab-push')
  test.each([
    ['GitHub’s as Gitea’s', { ...github.headers, 'x-gitea-event': 'push' }, github.raw],
    ['GitHub’s as GitLab’s', { ...without(github, 'x-github-event'), 'x-gitlab-event': 'Push Hook' }, github.raw],
    ['GitHub’s under Bitbucket’s header', { ...without(github, 'x-github-event'), 'x-event-key': 'repo:push' }, github.raw],
    ['Bitbucket’s under GitHub’s header', { ...without(bitbucket, 'x-event-key'), 'x-github-event': 'push' }, bitbucket.raw],
    ['a generic token as GitHub’s', { 'x-github-event': 'push', 'x-svc-token': webhookSecret }, '{}'],
    ['GitLab’s token as GitHub’s signature', { 'x-github-event': 'push', 'x-hub-signature-256': webhookSecret }, '{}'],
    ['GitLab’s token under a generic header', { ...without(gitlab, 'x-gitlab-event') }, gitlab.raw],
    [
      'a SHA-1 of GitHub',
      { 'x-github-event': 'push', 'x-hub-signature': `sha1=${createHmac('sha1', webhookSecret).update('{}').digest('hex')}` },
      '{}',
    ],
    ['nothing of any forge', { 'content-type': 'application/json' }, '{}'],
  ])('%s is refused', (_title, headers, raw) => expect(passes({ headers, raw })).toBe(false))

  test('a header that came twice is none', () => {
    const headers = { ...github.headers, 'x-hub-signature-256': [github.headers['x-hub-signature-256'], 'x'] } as never
    expect(passes({ headers, raw: github.raw })).toBe(false)
  })

  test.each([
    { 'x-svc-token': '' },
    { 'x-gitlab-event': 'Push Hook', 'x-gitlab-token': '' },
    { 'x-gitea-event': 'push', 'x-gitea-signature': createHmac('sha256', '').update('{}').digest('hex') },
  ])('without a secret nothing fits, also not %o', (headers) => expect(passes({ headers, raw: '{}', secret: '' })).toBe(false))

  test('Gitea’s headers decide, though it sends GitHub’s along', () => {
    const webhook = readWebhook('gitea-push')
    expect(webhook.headers).toMatchObject({ 'x-github-event': 'push' })
    expect(verify(webhook)).toMatchObject({ forge: 'gitea' })
    expect(passes({ ...webhook, headers: without(webhook, 'x-gitea-signature') })).toBe(false)
  })

  test('a refusal says what to do and nothing of the secret', () => {
    for (const name of webhookNames) {
      const webhook = readWebhook(name)
      for (const twin of [changeProof(webhook, () => undefined), changeProof(webhook, () => 'x')]) {
        const verdict = verify(twin)
        expect(verdict).toMatchObject({ ok: false, reason: expect.stringMatching(/secret|token|signed|webhook-id/) })
        expect(JSON.stringify(verdict)).not.toContain(webhookSecret.slice(6))
      }
    }
  })

  test('a new secret has the form that all forges take', () => {
    expect(makeWebhookSecret()).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    expect(makeWebhookSecret()).not.toBe(makeWebhookSecret())
  })
})

function without({ headers }: Webhook, ...names: string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)))
}

describe('G04: signatures of GitLab', () => {
  const webhook = readWebhook('gitlab-push-signed')
  const at = (minutes: number) => new Date(webhookSentAt.getTime() + minutes * 60_000)
  const signature = webhook.headers['webhook-signature'] ?? ''
  const others = (count: number) => Array.from({ length: count }, () => `v1,${randomBytes(32).toString('base64')}`).join(' ')
  const header = (more: Record<string, string>): Given => ({ raw: webhook.raw, headers: { ...webhook.headers, ...more } })
  const rawKey = createHmac('sha256', webhookSecret)
    .update(`${webhook.headers['webhook-id']}.1795262400.${webhook.raw}`)
    .digest('base64')

  test.each([
    ['five minutes later', { ...webhook, now: at(5) }, true],
    ['five minutes early', { ...webhook, now: at(-5) }, true],
    ['six minutes later', { ...webhook, now: at(6) }, false],
    ['six minutes early', { ...webhook, now: at(-6) }, false],
    ['beside a signature of an earlier secret', header({ 'webhook-signature': `${others(1)} ${signature}` }), true],
    ['after too many others', header({ 'webhook-signature': `${others(20)} ${signature}` }), false],
    ['of a version that is not known', header({ 'webhook-signature': signature.replace('v1', 'v2') }), false],
    ['with another id', header({ 'webhook-id': 'another' }), false],
    ['with another time', header({ 'webhook-timestamp': '1795262401' }), false],
    ['with no time', header({ 'webhook-timestamp': '' }), false],
    ['with a time that is none', header({ 'webhook-timestamp': 'NaN' }), false],
    ['made with the secret as text', header({ 'webhook-signature': `v1,${rawKey}` }), false],
    ['wrong, beside a token that is right', header({ 'webhook-signature': others(1), 'x-gitlab-token': webhookSecret }), false],
    ['empty, beside a token that is right', header({ 'webhook-signature': '', 'x-gitlab-token': webhookSecret }), false],
    ['right, beside a token that is wrong', header({ 'x-gitlab-token': 'x' }), true],
  ] as [string, Given, boolean][])('%s: %s', (_title, given, expected) => expect(passes(given)).toBe(expected))
})

test.each([
  ['github-push', 'push 72d3162e-cc78-11e3-81ab-4c9367dc0958'],
  ['gitlab-push', 'Push Hook f5e57fa8-0c8c-4a5c-9b23-0b1f5a2f5d0a'],
  ['gitlab-push-signed', 'Push Hook f5e57fa8-0c8c-4a5c-9b23-0b1f5a2f5d0a'],
  ['gitea-push', `push ${readWebhook('gitea-push').headers['x-gitea-delivery']}`],
  ['bitbucket-push', 'repo:push b0bcd7b4-8a6e-4c83-a0c4-2b7a8c5e7c50'],
  ['bitbucket-dc-push', 'repo:refs_changed b7e1f0d6-9f70-4ac5-9b0c-d9a4b7b0f4f2'],
  ['generic-push', undefined],
])('G04: a repetition of %s is known by %s', (name, delivery_id) => {
  expect(verify(readWebhook(name))).toMatchObject({ ok: true, delivery_id })
})
