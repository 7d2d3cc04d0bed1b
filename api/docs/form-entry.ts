import { escapeHtml } from '../../core/html.ts'
import { submit_form } from '../visitor/form-operation.ts'
import { code } from './html.ts'

/** The entry of the form endpoint, which has no key and therefore no form to try it. */
export function formEntry(baseUrl: string): string {
  const { id, title, summary, method, path } = submit_form
  const command = [
    `curl '${baseUrl}${path}'`,
    "-H 'Origin: {origin of the site}'",
    "-H 'Content-Type: application/json'",
    `-d '{"name":"Ada","message":"It stands."}'`,
  ].join(' \\\n  ')
  return `<article id="${id}" data-words="${escapeHtml(`${id} ${title} ${method} ${path} ${summary}`.toLowerCase())}">
<h3><a href="#${id}">${escapeHtml(title)}</a></h3>
${code(`${method} ${path}`, 'route')}
<p>${escapeHtml(summary)}</p>
<p class="soft">JSON, ${code('application/x-www-form-urlencoded')} or ${code('multipart/form-data')}, at most 50 KB and 30 fields. Errors are
${code('{"message", "reason"}')}, with the reason in ${code('Plinth-Error')} too.</p>
<pre class="curl">${escapeHtml(command)}</pre>
<details><summary>Response</summary><pre>${escapeHtml(JSON.stringify({ ok: true }, null, 2))}</pre></details>
</article>`
}
