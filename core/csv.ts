/** One line of CSV (RFC 4180), with its end. No cell is a formula, whether its reader splits at commas, at semicolons or at tabs. */
export const csvLine = (cells: readonly string[]) => `${cells.map(csvCell).join(',')}\r\n`

/** Begins a formula in a spreadsheet, also after spaces or quotes, and in the full-width form of some scripts. */
const beginsFormula = /^[\s\p{Cf}"]*[=+\-@|%\uff1d\uff0b\uff0d\uff20]/u

/**
 * A formula gets an apostrophe in front, which spreadsheets show as text. So does one after a semicolon, a tab or a line break within the cell:
 * a reader with another separator takes quotes within a line for text, and begins a cell of its own there.
 */
function csvCell(text: string): string {
  const parts = text.split(/(?<=[;\t\r\n])/).map((part) => (beginsFormula.test(part) ? `'${part}` : part))
  const cell = /^[\t\r\n]/.test(text) ? `'${parts.join('')}` : parts.join('')
  return /[",;\t\r\n']|^\s|\s$/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}
