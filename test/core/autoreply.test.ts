import { describe, expect, test } from 'vitest'
import {
  createFieldText,
  isAutomaticAddress,
  judgeSubmission,
  maxFieldLength,
  maxFieldsLength,
  type RepliedSubmission,
  replyAddress,
  replySender,
  replySubject,
} from '../../core/autoreply.ts'
import { senderParts } from '../../core/emails.ts'

const platform = 'Plinth <noreply@plinth.example>'
const submission: RepliedSubmission = {
  data: { email: 'ada@example.com' },
  shown: true,
  site_name: 'Field notes',
  trashed: false,
  plan: 'start',
  suspended: false,
  enabled: true,
  subject: 'Thank you',
  body: 'We have it.',
  email_field: 'email',
  has_files: false,
}

describe('a submission gets', () => {
  test('R04: a reply at the address of its field', () =>
    expect(judgeSubmission(submission, platform)).toEqual({ recipient: 'ada@example.com' }))

  test('a reply without a body when there are files to link to', () =>
    expect(judgeSubmission({ ...submission, body: '', has_files: true }, platform)).toEqual({ recipient: 'ada@example.com' }))

  test.each<[string, Partial<RepliedSubmission>]>([
    ['unverified', { shown: false }],
    ['trashed', { trashed: true }],
    ['disabled', { enabled: false }],
    ['suspended', { suspended: true }],
    ['plan', { plan: 'free' }],
    ['empty', { body: ' \n' }],
    ['address', { data: {} }],
    ['address', { data: { email: 'ada@example.com' }, email_field: 'mail' }],
    ['automatic', { data: { email: 'postmaster@example.com' } }],
    ['automatic', { data: { email: 'NoReply@plinth.example' } }],
  ])('no reply for the reason %s', (reason, change) =>
    expect(judgeSubmission({ ...submission, ...change }, platform)).toEqual({ reason }),
  )

  test('no reply at the address that the platform sends from', () => {
    const data = { email: 'HELLO@plinth.example' }
    expect(judgeSubmission({ ...submission, data }, 'Plinth <hello@plinth.example>')).toEqual({ reason: 'automatic' })
  })
})

describe('77: the address of a submission', () => {
  test.each([
    ['ada@example.com', 'ada@example.com'],
    ['  Ada.Lovelace+Notes@Example.COM ', 'ada.lovelace+notes@example.com'],
    ['x@xn--e1afmkfd.xn--p1ai', 'x@xn--e1afmkfd.xn--p1ai'],
    [`${'a'.repeat(64)}@example.com`, `${'a'.repeat(64)}@example.com`],
  ])('%j is %j', (value, address) => expect(replyAddress({ email: value }, 'email')).toBe(address))

  test.each([
    '',
    'ada',
    'ada@localhost',
    'ada@127.0.0.1',
    'ada@[127.0.0.1]',
    'ada@example.com, eve@example.com',
    'ada@example.com;eve@example.com',
    'ada@example.com\r\nBcc: eve@example.com',
    'ada@example.com\neve@example.com',
    'ada@example.com\u0000',
    '"ada lovelace"@example.com',
    '"a@example.com x"@internal.test',
    'ada(comment)@example.com',
    'ada@(comment)example.com',
    'Ada <ada@example.com>',
    '<ada@example.com>',
    'a@b@example.com',
    '.ada@example.com',
    'ada.@example.com',
    'a..da@example.com',
    'ада@example.com',
    'ada@пример.рф',
    'ada@example.com%0aBcc:eve@example.com',
    'mailto:ada@example.com',
    `${'a'.repeat(65)}@example.com`,
    `ada@${'a.'.repeat(150)}com`,
    ['ada@example.com', 'eve@example.com'],
    ['ada@example.com'],
    { address: 'ada@example.com' },
    7,
    null,
  ])('%j is none', (value) => expect(replyAddress({ email: value }, 'email')).toBeUndefined())

  test('is looked for in the fields of the form only', () => {
    for (const field of ['__proto__', 'constructor', 'toString']) expect(replyAddress({}, field)).toBeUndefined()
    const data = JSON.parse('{"__proto__": "ada@example.com"}')
    expect(replyAddress(data, '__proto__')).toBe('ada@example.com')
  })
})

describe('78: nobody reads', () => {
  test.each([
    'mailer-daemon',
    'postmaster',
    'noreply',
    'no-reply',
    'no_reply',
    'no.reply',
    'noreply+1234',
    'noreply-orders',
    'orders-noreply',
    'donotreply',
    'do-not-reply',
    'bounce',
    'bounces',
    'bounces+ada=example.com',
    'bounce-1234',
    'news-bounces',
    'list-help',
    'owner-news',
    'news-owner',
    'news-request',
    'majordomo',
    'abuse',
  ])('%s@example.com', (name) => expect(isAutomaticAddress(`${name}@example.com`)).toBe(true))

  test.each(['ada', 'reply', 'norbert', 'noreen', 'owner', 'liston', 'bouncer', 'not-ada', 'ada+noreply', 'post.master'])(
    'somebody reads %s@example.com',
    (name) => expect(isAutomaticAddress(`${name}@example.com`)).toBe(false),
  )
})

describe('R05: a field', () => {
  const text = (value: unknown) => createFieldText({ field: value as never })('field')

  test.each([
    ['Ada', 'Ada'],
    [' a\r\nb\t\u0007c\u2028d ', 'a b c d'],
    ['<b>&', '<b>&'],
    [7, '7'],
    [true, 'true'],
    [null, ''],
    [['red', 'blue', '', 3], 'red, blue, 3'],
    [{ a: 1 }, ''],
    [[{ a: 1 }, ['x']], ''],
    ['\u202egnp.exe', 'gnp.exe'],
    ['evil\u200b.\u2060example', 'evil.example'],
  ])('%j reads %j', (value, expected) => expect(text(value)).toBe(expected))

  test('that the form does not have is empty', () => {
    for (const name of ['other', 'toString', '__proto__']) expect(createFieldText({ field: 'x' })(name)).toBe('')
  })

  test('is cut at 500 characters, and all fields together at 5,000', () => {
    const fieldText = createFieldText({ field: 'x'.repeat(50_000) })
    const texts = Array.from({ length: 20 }, () => fieldText('field'))
    expect(texts[0]).toBe(`${'x'.repeat(maxFieldLength - 1)}…`)
    expect(texts.join('').length).toBe(maxFieldsLength)
  })

  test('is never cut within a character', () => expect(text('👋'.repeat(400)).isWellFormed()).toBe(true))
})

describe('the subject', () => {
  const subject = (template: string, data = {}) => replySubject(template, 'Field notes', data)

  test.each([
    ['Thank you, {{name}}', { name: 'Ada' }, 'Thank you, Ada'],
    ['Thank you, {{ name }}!', { name: 'Ada\r\nBcc: eve@example.com' }, 'Thank you, Ada Bcc: eve[@]example[.]com!'],
    ['{{a}}{{b}}', { a: '{{b}}', b: 'x' }, '{{b}}x'],
    ['About {{missing}}', {}, 'About'],
    ['', {}, 'Field notes'],
    ['{{missing}}', {}, 'Field notes'],
    ['Thank you, {{name}}', { name: 'Pay at https://evil.example/x' }, 'Thank you, Pay at https[://]evil[.]example/x'],
    ['www.{{name}}.com', { name: 'evil' }, 'www[.]evil[.]com'],
    ['{{a}}{{b}}', { a: 'evil.', b: 'example' }, 'evil[.]example'],
    ['shop.example: {{name}}', { name: 'Ada' }, 'shop.example: Ada'],
  ])('%j with %j is %j', (template, data, expected) => expect(subject(template, data)).toBe(expected))

  test('has at most 60 characters of a field, and 200 in all', () => {
    const data = { a: 'x'.repeat(500) }
    expect(subject('About {{a}}', data)).toBe(`About ${'x'.repeat(59)}…`)
    expect(subject('{{a}}{{a}}{{a}}{{a}}', data)).toHaveLength(200)
  })
})

describe('the sender', () => {
  test.each([
    ['Field notes', 'Field notes <noreply@plinth.example>'],
    ['Поле', 'Поле <noreply@plinth.example>'],
    ['a\r\nBcc: eve@example.com', 'a Bcc: eve example[.]com <noreply@plinth.example>'],
    ['"x" <eve@example.com>,', 'x eve example[.]com , <noreply@plinth.example>'],
    ['Your bank: go to https://evil.example', 'Your bank: go to https[://]evil[.]example <noreply@plinth.example>'],
    ['<>', platform],
  ])('of the site %j is %j', (name, expected) => expect(replySender(name, platform)).toBe(expected))

  test.each([
    [platform, { name: 'Plinth', address: 'noreply@plinth.example' }],
    ['"Plinth, Inc" <noreply@plinth.example>', { name: 'Plinth, Inc', address: 'noreply@plinth.example' }],
    ['noreply@plinth.example', { name: '', address: 'noreply@plinth.example' }],
  ])('%j has the parts %j', (sender, parts) => expect(senderParts(sender)).toEqual(parts))
})
