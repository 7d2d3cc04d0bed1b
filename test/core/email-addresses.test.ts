import { describe, expect, test } from 'vitest'
import { readEmail } from '../../core/access-addresses.ts'
import { replyAddress } from '../../core/autoreply.ts'
import { isPlainAddress } from '../../core/emails.ts'

const long = (local: number, label: number) => `${'a'.repeat(local)}@${'b'.repeat(label)}.example`

describe('77: an email may be sent to', () => {
  test.each([
    'ada@example.com',
    'Ada.Lovelace+notes@Mail.Example.COM',
    "o'brien@example.ie",
    'a_b%c-d@example.com',
    '-a@example.com',
    'a@b.co',
    'x@xn--e1afmkfd.xn--p1ai',
    'a@1.example',
    'a@mail.internal',
    long(64, 63),
    `a@${'b.'.repeat(125)}cd`,
  ])('%s', (address) => expect([isPlainAddress(address), readEmail(address)]).toEqual([true, address.toLowerCase()]))
})

describe('77: no email is sent to', () => {
  test.each([
    ['nothing', ''],
    ['a text', 'ada'],
    ['no local part', '@example.com'],
    ['no domain', 'ada@'],
    ['a host of the mail server', 'a@localhost'],
    ['a name below it', 'a@mail.localhost'],
    ['the same in capitals', 'a@mail.LOCALHOST'],
    ['a single label', 'a@intranet'],
    ['an IPv4 address', 'a@127.0.0.1'],
    ['an IPv4 address in hexadecimal', 'a@127.0.0.0x1'],
    ['a number', 'a@2130706433'],
    ['an address literal', 'a@[127.0.0.1]'],
    ['an IPv6 literal', 'a@[IPv6:::1]'],
    ['dots at the start and in a row', '.a..b@x'],
    ['a dot at the start', '.a@example.com'],
    ['a dot at the end of the local part', 'a.@example.com'],
    ['two dots in a row', 'a..b@example.com'],
    ['a dot at the start of the domain', 'a@.example.com'],
    ['a dot at the end of the domain', 'a@example.com.'],
    ['two dots in the domain', 'a@example..com'],
    ['a hyphen at the start of a label', 'a@-example.com'],
    ['a hyphen at the end of a label', 'a@example-.com'],
    ['an underscore in the domain', 'a@ex_ample.com'],
    ['a last label of one letter', 'a@example.c'],
    ['a last label that begins with a digit', 'a@example.1com'],
    ['a last label of digits', 'a@example.12'],
    ['a label of 64 characters', long(1, 64)],
    ['a local part of 65 characters', long(65, 3)],
    ['255 characters', `a@${'b.'.repeat(125)}cde`],
    ['letters beyond ASCII', 'ада@example.com'],
    ['a domain beyond ASCII', 'a@пример.рф'],
    ['a full-width dot', 'a@example\uff0ecom'],
    ['two at signs', 'a@b@example.com'],
    ['a quoted local part', '"a b"@example.com'],
    ['a comment', 'a(b)@example.com'],
    ['a name', 'Ada <ada@example.com>'],
    ['a list', 'a@example.com,b@example.com'],
    ['a route', '@a.example:b@example.com'],
    ['a port', 'a@example.com:25'],
    ['a line break', 'a@example.com\n'],
    ['a header', 'a@example.com\r\nBcc: b@example.com'],
    ['a NUL', 'a@example.com\u0000'],
    ['a space', 'a @example.com'],
    ['a URL', 'mailto:a@example.com'],
  ])('%s: %j', (_what, address) => {
    expect(isPlainAddress(address)).toBe(false)
    // a line break at the end is no part of what was typed
    const typed = address.trim()
    if (typed === address) expect([readEmail(address), replyAddress({ email: address }, 'email')]).toEqual([undefined, undefined])
  })

  test('a long text, at once', () => {
    const begin = process.threadCpuUsage()
    for (const unit of ['a', 'a.', '.', 'a@', '@a.', '-', 'a-']) expect(isPlainAddress(unit.repeat(1_000_000))).toBe(false)
    const { user, system } = process.threadCpuUsage(begin)
    expect((user + system) / 1000).toBeLessThan(500)
  })
})
