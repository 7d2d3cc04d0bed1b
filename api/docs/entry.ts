import { z } from 'zod'
import { escapeHtml } from '../../core/html.ts'
import type { Operation } from '../operation.ts'
import { type RestShape, restShape } from '../rest.ts'
import { type CurlContext, curlCommand } from './curl.ts'
import { code } from './html.ts'
import { responseOf } from './responses.ts'
import { type JsonSchema, schemaText } from './schema-text.ts'

export interface EntryContext extends CurlContext {
  readonly hasScopes: boolean
}

/** One operation: what it does and takes, a command that calls it, a response, and a form to try it. */
export function entry(op: Operation, context: EntryContext): string {
  const shape = restShape(op)
  const route = shape ? `${shape.method} ${shape.path}` : `tool ${op.id}`
  return `<article id="${op.id}" data-words="${escapeHtml(`${op.id} ${op.title} ${route} ${op.summary}`.toLowerCase())}">
<h3><a href="#${op.id}">${escapeHtml(op.title)}</a></h3>
${code(route, 'route')}
<p>${escapeHtml(op.summary)}</p>
${context.hasScopes ? `<p class="soft">Scope ${code(op.scope)}${op.tool ? ` · tool ${code(op.id)}` : ''}</p>` : ''}
${parameters(op, shape)}${shape ? `<pre class="curl">${escapeHtml(curlCommand(op, shape, context))}</pre>${response(op)}${tryForm(op, shape)}` : ''}
</article>`
}

const inputSchema = (op: Operation) => z.toJSONSchema(op.input, { io: 'input' }) as JsonSchema
const isRequired = (op: Operation, name: string) => inputSchema(op).required?.includes(name) ?? false

function parameters(op: Operation, shape: RestShape | undefined): string {
  const rows = Object.entries(inputSchema(op).properties ?? {}).map(([name, schema]) => {
    const { description = '', default: otherwise } = schema as JsonSchema
    const optional = isRequired(op, name) || otherwise !== undefined ? [] : ['optional']
    const facts = [shape ? locationOf(shape, name) : 'argument', schemaText(schema as JsonSchema), ...optional]
    return { name: shape && op.queryAliases?.[name] ? op.queryAliases[name] : name, facts, description }
  })
  if (op.raw) rows.push({ name: op.raw.name, facts: ['the body', op.raw.mediaTypes.join(', ')], description: op.raw.description })
  if (rows.length === 0) return ''
  const row = ({ name, facts, description }: (typeof rows)[number]) =>
    `<dt>${code(name)} <span>${escapeHtml(facts.join(' · '))}</span></dt><dd>${escapeHtml(description)}</dd>`
  return `<dl>${rows.map(row).join('')}</dl>`
}

function locationOf(shape: RestShape, name: string): string {
  if (shape.pathNames.includes(name)) return 'path'
  return shape.bodyNames.includes(name) ? 'body' : 'query'
}

function response(op: Operation): string {
  const example = responseOf(op)
  if (example === undefined) return ''
  return `<details><summary>Response</summary><pre>${escapeHtml(typeof example === 'string' ? example : JSON.stringify(example, null, 2))}</pre></details>`
}

function tryForm(op: Operation, shape: RestShape): string {
  const field = (location: string) => (name: string) => {
    const required = isRequired(op, shape.memberOf(name)) ? ' required' : ''
    return `<label>${name} <input name="${name}" data-in="${location}" autocomplete="off" spellcheck="false"${required}></label>`
  }
  const example = JSON.stringify(op.example ?? {}, null, 2)
  return `<details><summary>Try it</summary><form data-method="${shape.method}" data-path="${shape.path}">
${[...shape.pathNames.map(field('path')), ...shape.queryNames.map(field('query'))].join('')}
${shape.bodyNames.length > 0 ? `<label>JSON body <textarea data-in="json" spellcheck="false">${escapeHtml(example)}</textarea></label>` : ''}
${op.raw ? `<label>${escapeHtml(op.raw.description)} <input type="file" data-in="bytes" required></label>` : ''}
<button>Send</button><output></output></form></details>`
}
