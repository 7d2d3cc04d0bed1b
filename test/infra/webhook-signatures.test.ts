import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { makeWebhookSecret, signatureHeaders } from '../../infra/crypto/webhook-signatures.ts'

const docs = readFileSync(join(import.meta.dirname, '../../docs/webhooks.md'), 'utf8')
const example = (language: string) => new RegExp(`\`\`\`${language}\\n([^\`]*(?:\`[^\`]+)*?)\`\`\``).exec(docs)?.[1] ?? ''

const body = '{"type":"site.trashed","data":{"name":"Käse 🧀"}}'
const secret = makeWebhookSecret()
const message = { id: 'msg_01990000-0000-7000-8000-000000000001', sentAt: new Date(), body }

test('the signature is that of the Standard Webhooks specification', () => {
  // the example of its reference libraries
  const known = {
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    sentAt: new Date(1_614_265_330_000),
    body: '{"test": 2432232314}',
  }
  expect(signatureHeaders('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', known)).toEqual({
    'webhook-id': known.id,
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  })
})

const runners = {
  js(headers: object, text: string) {
    const call = `process.exit(verify(...JSON.parse(process.argv[1])) ? 0 : 1)`
    const given = JSON.stringify([secret, headers, text])
    execFileSync(process.execPath, ['--input-type=module', '-e', `${example('js')}\n${call}`, given], { stdio: 'pipe' })
  },
  python(headers: object, text: string) {
    const call = 'import json, sys\ns, h, b = json.loads(sys.argv[1])\nsys.exit(0 if verify(s, h, b.encode()) else 1)'
    execFileSync('python3', ['-c', `${example('python')}\n${call}`, JSON.stringify([secret, headers, text])], { stdio: 'pipe' })
  },
} as const

describe.each(Object.entries(runners))('the example of the documentation in %s', (_language, verify) => {
  const headers = signatureHeaders(secret, message)
  const refused = (given: object, text = body) =>
    expect(() => verify(given, text)).toThrow(expect.objectContaining({ status: 1, stderr: Buffer.alloc(0) }))

  test('accepts a delivery', () => verify(headers, body))

  test('accepts one of several signatures', () =>
    verify({ ...headers, 'webhook-signature': `v1,AAAA ${headers['webhook-signature']}` }, body))

  test('refuses another body, id, signature or secret', () => {
    refused(headers, `${body} `)
    refused({ ...headers, 'webhook-id': 'msg_other' })
    refused({ ...headers, 'webhook-signature': 'v1,AAAA' })
    refused(signatureHeaders(makeWebhookSecret(), message))
  })

  test('refuses an old delivery', () => refused(signatureHeaders(secret, { ...message, sentAt: new Date(Date.now() - 400_000) })))
})
