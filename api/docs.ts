import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { type ErrorCode, errorCodes } from '../core/errors.ts'
import { codesOf, errorStatuses } from './http-errors.ts'
import type { Operation } from './operation.ts'
import { type RestShape, restShape } from './rest.ts'

const asset = (name: string) => readFileSync(join(import.meta.dirname, name), 'utf8')
const style = asset('docs.css')
const script = asset('docs.js')
const source = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

/** Only the page's own scripts and styles run, and they connect to this server only. */
export const docsPolicy = `default-src 'none'; style-src ${source(style)}; script-src ${source(script)}; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

const escapeHtml = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
const code = (text: string, kind = '') => `<code${kind && ` class="${kind}"`}>${escapeHtml(text)}</code>`

/** A reference of every operation with a form to try it. The page loads nothing from other servers. */
export function docsPage(operations: readonly Operation[], tags: Readonly<Record<string, string>>, baseUrl: string): string {
  const groups = Object.entries(Object.groupBy(operations, (op) => op.tag)).map(([tag, members = []]) => ({ tag, members }))
  const links = groups.flatMap(({ members }) => members.map((op) => `<a href="#${op.id}">${escapeHtml(op.title)}</a>`))
  const sections = groups.map(
    ({ tag, members }) =>
      `<section><h2>${escapeHtml(tag)}</h2><p class="soft">${escapeHtml(tags[tag] ?? '')}</p>${members.map(entry).join('')}</section>`,
  )
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Plinth API</title>
<style>${style}</style>
<h1>Plinth API</h1>
<p>Send <code>Authorization: Bearer &lt;key&gt;</code> to ${code(baseUrl)}. Every success is 200 with JSON, every error is <code>{"message"}</code> with a code in the header
<code>Plinth-Error</code>; <a href="#errors">the list of codes</a> says what each means. Members and parameters that an operation does not have are ignored; the header
<code>Plinth-Ignored</code> names the first ten.
The same operations are tools of the MCP server at <code>/mcp</code>. For machines: <a href="/api/v1/openapi.json">openapi.json</a>, <a href="/llms.txt">llms.txt</a>.</p>
<nav>${links.join('')}</nav>
<div class="key"><label>Your key, kept in this tab only <input id="key" type="password" autocomplete="off" spellcheck="false" placeholder="svc_…"></label></div>
${sections.join('\n')}
${errorTable()}
<script>${script}</script>
</html>
`
}

function errorTable(): string {
  const row = (status: number, name: ErrorCode) => `<tr><td>${code(name)}<td>${status}<td>${escapeHtml(errorCodes[name].meaning)}`
  const rows = errorStatuses.flatMap((status) => codesOf(status).map((name) => row(status, name)))
  return `<section id="errors"><h2>Errors</h2><p class="soft">The codes of the header ${code('Plinth-Error')} by status. New ones may follow.</p>
<table class="codes">${rows.join('')}</table></section>`
}

function entry(op: Operation): string {
  const shape = restShape(op)
  const route = shape ? `${shape.method} ${shape.path}` : `tool ${op.id}`
  return `<article id="${op.id}">
<h3><a href="#${op.id}">${escapeHtml(op.title)}</a></h3>
${code(route, 'route')}
<p>${escapeHtml(op.summary)}</p>
<p class="soft">Scope ${code(op.scope)}${op.tool ? ` · tool ${code(op.id)}` : ''}</p>
${inputTable(op, shape)}${shape ? tryForm(op, shape) : ''}
</article>`
}

type JsonSchema = z.core.JSONSchema.JSONSchema

const inputSchema = (op: Operation) => z.toJSONSchema(op.input, { io: 'input' }) as JsonSchema
const isRequired = (op: Operation, name: string) => inputSchema(op).required?.includes(name) ?? false

function inputTable(op: Operation, shape: RestShape | undefined): string {
  const rows = Object.entries(inputSchema(op).properties ?? {}).map(([name, schema]) => {
    const { description = '', default: otherwise } = schema as JsonSchema
    const required = isRequired(op, name) || otherwise !== undefined ? '' : ', optional'
    return [name, shape ? locationOf(shape, name) : 'argument', `${typeOf(schema as JsonSchema)}${required}`, description]
  })
  if (op.raw) rows.push([op.raw.name, 'the body', op.raw.mediaTypes.join(', '), op.raw.description])
  if (rows.length === 0) return ''
  const row = ([name = '', location = '', type = '', description = '']: string[]) =>
    `<tr><td>${code(name)}<td>${location}<td>${escapeHtml(type)}<td>${escapeHtml(description)}`
  return `<table>${rows.map(row).join('')}</table>`
}

function locationOf(shape: RestShape, name: string): string {
  if (shape.pathNames.includes(name)) return 'path'
  return shape.queryNames.includes(name) ? 'query' : 'body'
}

/** Describes the type of a schema in a few words. */
function typeOf(schema: JsonSchema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' or ')
  if (schema.anyOf) return schema.anyOf.map((one) => typeOf(one)).join(' or ')
  const otherwise = schema.default === undefined ? '' : `, else ${JSON.stringify(schema.default)}`
  if (schema.type === 'array') return `list of ${typeOf(schema.items as JsonSchema)}`
  if (schema.type === 'object') return `{${Object.keys(schema.properties ?? {}).join(', ')}}`
  if (schema.type === 'integer') return `integer ${schema.minimum} to ${schema.maximum}${otherwise}`
  const length = schema.maxLength === undefined ? '' : `, ${schema.minLength ?? 0} to ${schema.maxLength} characters`
  return `${schema.format ?? String(schema.type)}${length}${otherwise}`
}

function tryForm(op: Operation, shape: RestShape): string {
  const field = (location: string) => (name: string) => {
    const required = isRequired(op, name) ? ' required' : ''
    return `<label>${name} <input name="${name}" data-in="${location}" autocomplete="off" spellcheck="false"${required}></label>`
  }
  const example = JSON.stringify(op.example ?? {}, null, 2)
  return `<details><summary>Try it</summary><form data-method="${shape.method}" data-path="${shape.path}">
${[...shape.pathNames.map(field('path')), ...shape.queryNames.map(field('query'))].join('')}
${shape.bodyNames.length > 0 ? `<label>JSON body <textarea data-in="json" spellcheck="false">${escapeHtml(example)}</textarea></label>` : ''}
${op.raw ? `<label>${escapeHtml(op.raw.description)} <input type="file" data-in="bytes" required></label>` : ''}
<button>Send</button><output></output></form></details>`
}
