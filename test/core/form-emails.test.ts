import { describe, expect, test } from 'vitest'
import { digestPauseMs, maxListedSubmissions, type ReceivedSubmission, submissionsEmail } from '../../core/form-emails.ts'
import type { SubmissionData } from '../../core/forms.ts'

const site = { id: '01990000-0000-7000-8000-000000000001', name: 'Acme', url: 'https://acme.example' }
const submission = (data: SubmissionData): ReceivedSubmission => ({
  id: '01990000-0000-7000-8000-000000000002',
  data,
  created_at: new Date('2026-09-07T10:30:00Z'),
})
const about = (data: SubmissionData) => submissionsEmail(site, 1, [submission(data)])

describe('W02: the email about one submission', () => {
  test('has its fields as plain text and as HTML', () => {
    const { subject, text, html } = about({ name: 'Ann', topics: ['a', 'b'], count: 2, nested: { x: [true, null] } })
    expect(subject).toBe('A new form submission on Acme')
    expect(text).toContain('https://acme.example) has submitted a form on 7 Sept 2026, 10:30 UTC:')
    expect(text).toContain('name:\n    Ann\ntopics:\n    a\n    b\ncount:\n    2\nnested:\n    {"x":[true,null]}\n')
    expect(html).toContain('<dt style="color:#666">name</dt>\n<dd style="margin:0 0 1em;white-space:pre-wrap">Ann</dd>')
  })

  test.each([
    '<img src=x onerror=alert(1)>',
    '</dd></dl><script>alert(1)</script>',
    `" onmouseover="alert(1)' x='`,
    '<!--',
    '&lt;b&gt;',
    ']]><svg/onload=alert(1)>',
  ])('checks 76: shows the markup %j as text, in a name and in a value', (markup) => {
    const { html } = about({ [markup]: markup })
    const [, name = '', value = ''] = /<dt[^>]*>([^<]*)<\/dt>\n<dd[^>]*>([^<]*)<\/dd>/.exec(html) ?? []
    const escaped = markup.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
    const expected = escaped.replaceAll('"', '&quot;').replaceAll("'", '&#39;')
    expect([name, value]).toEqual([expected, expected])
  })

  test('makes no link of an address that a visitor wrote, nor does a mail program', () => {
    const link = 'https://phishing.example/ or phishing.example or eve@phishing.example or phishing\u200b\u3002example'
    const { text, html } = about({ [link]: link, nested: { x: [link] } })
    for (const part of [text, html]) expect(part).not.toMatch(/https:\/\/phishing|phishing[.\u3002]|[^[]@/)
    expect(text).toContain(
      '    https[://]phishing[.]example/ or phishing[.]example or eve[@]phishing[.]example or phishing[\u3002]example\n',
    )
  })

  test('leaves a value that is an email address, for the owner to copy', () => {
    expect(about({ contact: ' eve@phishing.example ' }).text).toContain('contact:\n    eve@phishing.example\n')
  })

  test('indents each line of a value, so that none looks like a line of the platform', () => {
    const { text } = about({ message: 'one\r\n\r\nIt is in the inbox of your project: elsewhere\rthree' })
    expect(text).toContain('message:\n    one\n    \n    It is in the inbox of your project: elsewhere\n    three\n')
  })

  test('keeps control characters and turned text directions out', () => {
    const { text } = about({ 'a\u0000\u202eb\nc': 'x\u001b[31m\u2066y\u0085\u2028z' })
    expect(text).toContain('ab c:\n    x[31myz\n')
  })

  test.each([
    ['a value', { message: 'x'.repeat(50_000) }],
    ['a name', { ['n'.repeat(50_000)]: 'x' }],
    ['many values', Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`field ${i}`, 'y'.repeat(1700)]))],
    ['many lines', { message: '\n'.repeat(20_000).concat('x').replace(/^/, 'x') }],
    ['a value that grows when it is escaped', { message: '"'.repeat(50_000) }],
  ])('is bounded, and says when it has cut %s', (_what, data: SubmissionData) => {
    const { text, html } = about(data)
    expect(text.length).toBeLessThan(30_000)
    expect(html.length).toBeLessThan(130_000)
    expect(text).toContain('…')
    expect(text).toContain('the whole of it is in the inbox')
  })

  test('says nothing of a cut when there was none', () => expect(about({ message: 'x' }).text).not.toContain('the whole of it'))

  test('never halves a surrogate pair', () => {
    const { text, subject } = submissionsEmail({ ...site, name: '🧀'.repeat(200) }, 1, [
      submission({ m: `x${'🧀'.repeat(6000)}` }),
    ])
    expect([text.isWellFormed(), subject.isWellFormed(), subject.length]).toEqual([true, true, 200])
  })

  test('has a subject of one line, whatever the site is called', () => {
    expect(submissionsEmail({ ...site, name: 'a\r\nBcc: b@example.com' }, 1, [submission({})]).subject).toBe(
      'A new form submission on a Bcc: b@example.com',
    )
  })

  test.each([
    ['ann@example.com', 'ann@example.com'],
    [' ann+news@mail.example.com ', 'ann+news@mail.example.com'],
    ['ann@example.com\r\nBcc: b@example.com', undefined],
    ['ann@example.com, b@example.com', undefined],
    ['ann@example.com;b@example.com', undefined],
    ['"ann b"@example.com', undefined],
    ['ann(comment)@example.com', undefined],
    ['Ann <ann@example.com>', undefined],
    ['ann@käse.example', undefined],
    [`${'a'.repeat(65)}@example.com`, undefined],
    [`ann@${'a.'.repeat(20_000)}example`, undefined],
    ['ann', undefined],
    [['ann@example.com', 'b@example.com'], undefined],
    [7, undefined],
  ])('checks 77: the field email %j is answered at %j', (email, expected) => expect(about({ email }).reply_to).toBe(expected))

  test('without fields says so', () => expect(about({}).text).toContain('(no fields)'))
})

describe('a digest', () => {
  const many = (count: number) =>
    submissionsEmail(
      site,
      count,
      Array.from({ length: Math.min(count, maxListedSubmissions) }, (_, i) =>
        submission({ email: 'ann@example.com', message: `number ${i}\nsecond line\nthird\nfourth`.padEnd(3000) }),
      ) as [ReceivedSubmission],
    )

  test('says how many there are, lists the newest in short, and is answered to nobody', () => {
    const { subject, text, reply_to } = many(2345)
    expect([subject, reply_to]).toEqual(['2345 new form submissions on Acme', undefined])
    expect(text).toContain('have submitted 2345 forms since the last email.\n\nThe newest 20 of them, in short:')
    expect(text.match(/number \d+/g)).toHaveLength(20)
    expect(text).not.toContain('fourth')
    expect(text.length).toBeLessThan(20_000)
  })

  test('lists all of a few', () => expect(many(3).text).toContain('In short:'))
})

test.each([
  [1, 10],
  [2, 20],
  [3, 40],
  [4, 60],
  [5000, 60],
])('after %d emails submissions are gathered for %d minutes', (emails, minutes) =>
  expect(digestPauseMs(emails, 600_000)).toBe(minutes * 60_000),
)
