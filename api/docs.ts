import type { Operation } from './operation.ts'

const escapeHtml = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')

/** A self-contained reference page of every operation, grouped as in the registry. */
export function docsPage(operations: readonly Operation[], baseUrl: string): string {
  const groups = Map.groupBy(operations, (op) => op.tag)
  const sections = [...groups].map(
    ([tag, members]) => `<section><h2>${escapeHtml(tag)}</h2>${members.map(entry).join('')}</section>`,
  )
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Plinth API</title>
<style>
  :root { color-scheme: light dark; --line: light-dark(#d8dce3, #333a46); --soft: light-dark(#5a6472, #9aa5b5); --accent: light-dark(#1f5fbf, #7fb2ff) }
  body { font: 16px/1.55 system-ui, sans-serif; max-width: 52rem; margin: 0 auto; padding: 2.5rem 1.25rem 5rem; background: light-dark(#fff, #14171c); color: light-dark(#1b2027, #e6e9ee) }
  h1 { font-size: 2rem; margin: 0 }
  h2 { margin: 2.5rem 0 .5rem; font-size: 1.05rem; text-transform: uppercase; letter-spacing: .06em; color: var(--soft) }
  article { border-top: 1px solid var(--line); padding: .9rem 0 }
  h3 { margin: 0; font-size: 1.05rem }
  code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere }
  .route { color: var(--accent) }
  p { margin: .25rem 0; color: var(--soft) }
  a { color: var(--accent) }
</style>
<h1>Plinth API</h1>
<p>Send <code>Authorization: Bearer &lt;key&gt;</code> to <code>${escapeHtml(baseUrl)}</code>. Every success is 200 with JSON, every error is <code>{"message"}</code>.
The same operations are tools of the MCP server at <code>/mcp</code>. Machine-readable: <a href="/api/v1/openapi.json">openapi.json</a>.</p>
${sections.join('\n')}
</html>
`
}

function entry(op: Operation): string {
  const names = Object.keys(op.input.shape).filter((name) => !op.rest?.includes(`{${name}}`))
  const takes = [...names, ...(op.raw ? [`${op.raw.description} (${op.raw.mediaTypes.join(', ')})`] : [])]
  return `<article id="${op.id}">
<h3>${escapeHtml(op.title)}</h3>
<code class="route">${escapeHtml(op.rest ?? `tool ${op.id}`)}</code>
<p>${escapeHtml(op.summary)}</p>
<p>Scope <code>${op.scope}</code>${op.tool ? ` · tool <code>${op.id}</code>` : ''}${takes.length > 0 ? ` · takes ${takes.map((name) => `<code>${escapeHtml(name)}</code>`).join(', ')}` : ''}</p>
</article>`
}
