/** One line of CSV (RFC 4180), with its end. */
export const csvLine = (cells: readonly string[]) => `${cells.map(csvCell).join(',')}\r\n`

/** Begins a formula in a spreadsheet, also after spaces, and in the full-width form of some scripts. */
const beginsFormula = /^[\s\p{Cf}]*[=+\-@|%\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/u

/** Text that begins a formula gets an apostrophe in front, which spreadsheets show as text. */
const csvCell = (text: string) => {
  const shown = beginsFormula.test(text) ? `'${text}` : text
  return /[",\r\n']|^\s|\s$/.test(shown) ? `"${shown.replaceAll('"', '""')}"` : shown
}
