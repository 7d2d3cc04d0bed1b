import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ErrorCode, errorCodes } from '../../core/errors.ts'
import { codesOf, errorStatuses } from '../http-errors.ts'
import type { Operation } from '../operation.ts'
import { entry } from './entry.ts'
import { code, escapeHtml } from './html.ts'

const asset = (name: string) => readFileSync(join(import.meta.dirname, name), 'utf8')
const style = asset('style.css')
const script = asset('script.js')
const source = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

/** Only the page's own scripts and styles run, and they connect to this server only. */
export const docsPolicy = `default-src 'none'; style-src ${source(style)}; script-src ${source(script)}; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

/** A reference of every operation with a form to try it. The page loads nothing from other servers. */
export function docsPage(operations: readonly Operation[], tags: Readonly<Record<string, string>>, baseUrl: string): string {
  const groups = Object.entries(Object.groupBy(operations, (op) => op.tag)).map(([tag, members = []]) => ({ tag, members }))
  const contents = groups.map(({ tag, members }) => {
    const links = members.map((op) => `<li><a href="#${op.id}">${escapeHtml(op.title)}</a>`)
    return `<li><a href="#${slug(tag)}">${escapeHtml(tag)}</a><ul>${links.join('')}</ul>`
  })
  const sections = groups.map(
    ({ tag, members }) =>
      `<section id="${slug(tag)}"><h2>${escapeHtml(tag)}</h2><p class="soft">${escapeHtml(tags[tag] ?? '')}</p>
${members.map((op) => entry(op, baseUrl)).join('\n')}</section>`,
  )
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Plinth API</title>
<style>${style}</style>
<body>
<aside>
<label class="key">Your key, kept in this tab only <input id="key" type="password" autocomplete="off" spellcheck="false" placeholder="svc_…"></label>
<label>Search <input id="search" type="search" autocomplete="off" spellcheck="false" placeholder="operation, path or word"></label>
<details id="contents" open><summary>Contents</summary><nav aria-label="Contents"><ul><li><a href="#about">About</a>${contents.join('')}<li><a href="#errors">Errors</a></ul></nav></details>
</aside>
<main>
<section id="about"><h1>Plinth API</h1>
<p>Send <code>Authorization: Bearer &lt;key&gt;</code> to ${code(baseUrl)}. Every success is 200 with JSON, every error is <code>{"message"}</code> with a code in the header
<code>Plinth-Error</code>; <a href="#errors">the list of codes</a> says what each means. Members and parameters that an operation does not have are ignored; the header
<code>Plinth-Ignored</code> names the first ten.
The same operations are tools of the MCP server at <code>/mcp</code>. For machines: <a href="/api/v1/openapi.json">openapi.json</a>, <a href="/llms.txt">llms.txt</a>.</p>
<p>In the commands, <code>$KEY</code> is a key of your project; replace the names in braces.</p></section>
${sections.join('\n')}
${errorCodeList()}
<p id="nothing" hidden>No operation matches.</p>
</main>
<script>${script}</script>
</html>
`
}

const slug = (tag: string) => tag.toLowerCase().replaceAll(' ', '-')

function errorCodeList(): string {
  const row = (status: number, name: ErrorCode) =>
    `<div><dt>${code(name)} <span>${status}</span></dt><dd>${escapeHtml(errorCodes[name].meaning)}</dd></div>`
  const rows = errorStatuses.flatMap((status) => codesOf(status).map((name) => row(status, name)))
  return `<section id="errors"><h2>Errors</h2><p class="soft">The codes of the header ${code('Plinth-Error')} by status. New ones may follow.</p>
<dl>${rows.join('')}</dl></section>`
}
