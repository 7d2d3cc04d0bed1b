import { parse } from 'csv-parse/sync'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { csvLine } from '../../core/csv.ts'

/** The cells that a program sees which splits at this character, whatever it makes of the quotes. */
function cellsOf(csv: string, delimiter: string): string[] {
  try {
    return parse(csv, { delimiter, relax_quotes: true, relax_column_count: true }).flat()
  } catch (error) {
    // a spreadsheet takes the rest of the file for the cell
    if ((error as { code?: string }).code === 'CSV_QUOTE_NOT_CLOSED') return cellsOf(`${csv}"`, delimiter)
    throw error
  }
}

const formula = /^[\s\p{Cf}"]*[=+\-@|%\uff1d\uff0b\uff0d\uff20]/u
const delimiters = [',', ';', '\t']
const unit = fc.constantFrom('a', '1', "'", '"', '=', '+', '-', '@', ',', ';', '\t', '\r', '\n', ' ', '\uff1d', '\u200b')

describe.each(delimiters)('E35 79: a reader that splits at %j', (delimiter) => {
  test.each([
    'a;=1+1',
    'a\t=1+1',
    'a; \u200b=1+1',
    'a;"=1+1"',
    'a";=1+1',
    '";=1+1',
    'a\n=1+1',
    'a\r=1+1;=2',
    ';;=1',
    'a;\t\r\n+1',
    '"=1"',
    'a;\uff1d1',
  ])('sees no formula in %j, in the first column or another one', (text) => {
    const seen = cellsOf(csvLine([text, text, 'x']) + csvLine(['x', text, text]), delimiter)
    expect(seen.filter((cell) => formula.test(cell))).toEqual([])
  })

  test('sees no formula in any cells', () => {
    const lines = fc.array(fc.array(fc.string({ unit, maxLength: 8 }), { minLength: 1, maxLength: 4 }), {
      minLength: 1,
      maxLength: 4,
    })
    const run = fc.property(lines, (rows) => {
      const seen = cellsOf(rows.map(csvLine).join(''), delimiter)
      expect(seen.filter((cell) => formula.test(cell))).toEqual([])
    })
    fc.assert(run, { numRuns: 1000 })
  })
})

test('E35: a reader of RFC 4180 gets each cell back, but for the apostrophes', () => {
  const row = fc.array(fc.string({ unit, maxLength: 8 }), { minLength: 2, maxLength: 4 })
  const bare = (cells: readonly string[]) => cells.map((cell) => cell.replaceAll("'", ''))
  const run = fc.property(row, (cells) => {
    expect(bare(parse(csvLine(cells), { record_delimiter: '\r\n' }).flat())).toEqual(bare(cells))
  })
  fc.assert(run)
})

test.each(['a, b', 'one; two', 'a-b; c=d', '3,5', 'yes, -5', "it's", 'first\nsecond', 'tab\there', '"quoted"'])(
  'leaves %j as it is',
  (text) => expect(parse(csvLine([text]))).toEqual([[text]]),
)

test.each(['\t', ';', '\n', ' ', '"', ';"', '\u200b'])('takes little time for a long run of %j', (run) => {
  const begin = process.threadCpuUsage()
  csvLine([run.repeat(50_000)])
  const { user, system } = process.threadCpuUsage(begin)
  // milliseconds: a few, and seconds if it cost the square of the length
  expect((user + system) / 1000).toBeLessThan(500)
})
