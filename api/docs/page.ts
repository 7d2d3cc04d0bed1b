import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ErrorCode, errorCodes } from '../../core/errors.ts'
import { escapeHtml } from '../../core/html.ts'
import { codesOf, errorStatuses } from '../http-errors.ts'
import type { Operation } from '../operation.ts'
import { submit_form } from '../visitor/form-operation.ts'
import { entry } from './entry.ts'
import { formEntry } from './form-entry.ts'
import { code } from './html.ts'

const asset = (name: string) => readFileSync(join(import.meta.dirname, name), 'utf8')
const style = asset('style.css')
const script = asset('script.js')
const source = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

/** Only the page's own scripts and styles run, and they connect to this server only. */
export const docsPolicy = `default-src 'none'; style-src ${source(style)}; script-src ${source(script)}; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

export interface Reference {
  readonly title: string
  /** The beginning of the page, as HTML. */
  readonly about: (baseUrl: string) => string
  readonly key: {
    readonly label: string
    readonly placeholder: string
    /** The variable of the shell that holds it in the commands. */
    readonly variable: string
  }
  readonly hasScopes: boolean
  /** Entries of what visitors use without a key, by tag. */
  readonly publicEntries: Readonly<Record<string, readonly PublicEntry[]>>
}

interface PublicEntry {
  readonly id: string
  readonly title: string
  readonly html: (baseUrl: string) => string
}

const conventions = `Every success is 200 with JSON, every error is <code>{"message"}</code> with a code in the header
<code>Plinth-Error</code>; <a href="#errors">the list of codes</a> says what each means. Members and parameters that an operation does not have are ignored; the header
<code>Plinth-Ignored</code> names the first ten.`

/** The pages for the holders of project keys and for the operator. */
export const references = {
  projects: {
    title: 'Plinth API',
    about: (baseUrl) => `<p>Send <code>Authorization: Bearer &lt;key&gt;</code> to ${code(baseUrl)}. ${conventions}
Operations that name a tool are also called through the MCP server at <code>/mcp</code>. For machines: <a href="/api/v1/openapi.json">openapi.json</a>, <a href="/llms.txt">llms.txt</a>.
<a href="/docs/operator">The operator of this installation has more</a>.</p>
<p>In the commands, <code>$KEY</code> is a key of your project; replace the names in braces.</p>`,
    key: { label: 'Your key, kept in this tab only', placeholder: 'svc_…', variable: 'KEY' },
    hasScopes: true,
    publicEntries: { [submit_form.tag]: [{ ...submit_form, html: formEntry }] },
  },
  operator: {
    title: 'Plinth for operators',
    about: (baseUrl) => `<p>Send <code>Authorization: Bearer &lt;operator token&gt;</code> to ${code(baseUrl)}. ${conventions}
For machines: <a href="/operator/v1/openapi.json">openapi.json</a>. <a href="/docs">What keys of projects can do</a> is on a page of its own.</p>
<p>In the commands, <code>$TOKEN</code> is the operator token; replace the names in braces.</p>`,
    key: { label: 'Operator token, kept in this tab only', placeholder: 'token', variable: 'TOKEN' },
    hasScopes: false,
    publicEntries: {},
  },
} as const satisfies Record<string, Reference>

/** A reference of every operation with a form to try it. The page loads nothing from other servers. */
export function docsPage(
  operations: readonly Operation[],
  tags: Readonly<Record<string, string>>,
  baseUrl: string,
  { title, about, key, hasScopes, publicEntries }: Reference = references.projects,
): string {
  const groups = Object.entries(Object.groupBy(operations, (op) => op.tag)).map(([tag, members = []]) => ({
    tag,
    members,
    visitors: publicEntries[tag] ?? [],
  }))
  const contents = groups.map(({ tag, members, visitors }) => {
    const links = [...members, ...visitors].map((op) => `<li><a href="#${op.id}">${escapeHtml(op.title)}</a>`)
    return `<li><a href="#${slug(tag)}">${escapeHtml(tag)}</a><ul>${links.join('')}</ul>`
  })
  const sections = groups.map(
    ({ tag, members, visitors }) =>
      `<section id="${slug(tag)}"><h2>${escapeHtml(tag)}</h2><p class="soft">${escapeHtml(tags[tag] ?? '')}</p>
${[
  ...members.map((op) => entry(op, { baseUrl, keyVariable: key.variable, hasScopes })),
  ...visitors.map(({ html }) => html(baseUrl)),
].join('\n')}</section>`,
  )
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${title}</title>
<style>${style}</style>
<body>
<aside>
<label>${key.label} <input id="key" name="${key.variable}" type="password" autocomplete="off" spellcheck="false" placeholder="${key.placeholder}"></label>
<label>Search <input id="search" type="search" autocomplete="off" spellcheck="false" placeholder="operation, path or word"></label>
<details id="contents" open><summary>Contents</summary><nav aria-label="Contents"><ul><li><a href="#about">About</a>${contents.join('')}<li><a href="#errors">Errors</a></ul></nav></details>
</aside>
<main>
<section id="about"><h1>${title}</h1>
${about(baseUrl)}</section>
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
