import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { open, openKeyring, SealError, seal } from '../../infra/crypto/seal.ts'

const secretKey = randomBytes(32)
const keyring = openKeyring(secretKey)
const context = { table: 'domains', id: '0198a6b0-0000-7000-8000-000000000001', column: 'certificate_key' }
const text = 'päss word\n-----BEGIN PRIVATE KEY-----'

describe('sealed texts', () => {
  test.each([text, '', '\0', 'x'.repeat(100_000)])('open again where they were sealed', (plain) => {
    expect(open(keyring, seal(keyring, plain, context), context)).toBe(plain)
  })

  test('show nothing of the text and differ each time', () => {
    const [first, second] = [seal(keyring, text, context), seal(keyring, text, context)]
    expect(first).toMatch(/^v1\.[0-9a-f]{8}\.[A-Za-z0-9_-]+$/)
    expect(Buffer.from(first.split('.')[2] ?? '', 'base64url').includes('word')).toBe(false)
    expect(first).not.toBe(second)
  })

  test('no bit can be changed', () => {
    const [version, id, payload = ''] = seal(keyring, 'text', context).split('.')
    const bytes = Buffer.from(payload, 'base64url')
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const changed = Buffer.from(bytes)
      changed.writeUInt8(changed.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3)
      expect(() => open(keyring, `${version}.${id}.${changed.toString('base64url')}`, context)).toThrow(SealError)
    }
  })

  test.each([
    { ...context, table: 'sites' },
    { ...context, id: '0198a6b0-0000-7000-8000-000000000002' },
    { ...context, column: 'token' },
  ])('do not open as %o', (other) => {
    expect(() => open(keyring, seal(keyring, text, context), other)).toThrow(/was changed, or was sealed for another place/)
  })

  test.each(['', 'plain', 'v1.00000000.', 'v2.00000000.AAAA', `v1.${'0'.repeat(8)}.AAAA`])(
    '%j is not a sealed text',
    (sealed) => {
      expect(() => open(keyring, sealed, context)).toThrow(/certificate_key of domains .* is not a sealed text/)
    },
  )

  test('of a key that is not known are refused with what to check', () => {
    const sealed = seal(openKeyring(randomBytes(32)), text, context)
    expect(() => open(keyring, sealed, context)).toThrow(/which is not known: is PLINTH_SECRET_KEY another one now/)
  })

  test('under the id of another key do not open', () => {
    const other = openKeyring(randomBytes(32), [secretKey])
    const [version, , payload] = seal(keyring, text, context).split('.')
    expect(() => open(other, `${version}.${other.current.id}.${payload}`, context)).toThrow(SealError)
  })

  test('of an earlier key still open', () => {
    const rotated = openKeyring(randomBytes(32), [secretKey])
    const sealed = seal(keyring, text, context)
    expect(open(rotated, sealed, context)).toBe(text)
    expect(() => open(keyring, seal(rotated, text, context), context)).toThrow(SealError)
  })

  test('the id says nothing about the key', () => {
    expect(openKeyring(secretKey).current.id).toBe(keyring.current.id)
    expect(Buffer.from(keyring.current.secret).toString('hex')).not.toContain(keyring.current.id)
  })
})
