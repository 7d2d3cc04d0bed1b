import type { Operation } from './operation.ts'
import { submit_form } from './visitor/form-operation.ts'

/** The index for language models in the form of llmstxt.org. */
export function llmsText(operations: readonly Operation[], tags: Readonly<Record<string, string>>, baseUrl: string): string {
  const groups = Object.entries(Object.groupBy(operations, (op) => op.tag)).map(
    ([tag, members = []]) =>
      `## ${tag}\n\n${tags[tag] ?? ''}\n\n${[...members.map((op) => entry(op, baseUrl)), ...publicEntries(tag, baseUrl)].join('\n')}\n`,
  )
  return `# Plinth

> Self-hosted static hosting: push files or an archive, have it built, serve it. One project key works for REST and for the tools.

Send \`Authorization: Bearer <key>\`. Every success is 200 with JSON, every error is {"message"} and says what to do; the header Plinth-Error has a code.
The header Plinth-Ignored names members that the operation does not have.
To publish: create_site once, then deploy_files or deploy_site, then get_deploy_status until it is active or failed.

- [OpenAPI document](${baseUrl}/api/v1/openapi.json): every operation, schema and status of REST
- [Reference](${baseUrl}/docs): the same for people, with forms
- Tool server: POST ${baseUrl}/mcp (Model Context Protocol; a bare tools/call works)

${groups.join('\n')}`
}

function entry(op: Operation, baseUrl: string): string {
  const faces = [op.rest, op.tool ? `tool ${op.id}` : undefined].filter((face) => face !== undefined)
  return `- [${op.title}](${baseUrl}/docs#${op.id}): ${faces.join(', ')}. ${op.summary}`
}

function publicEntries(tag: string, baseUrl: string): string[] {
  const { id, title, method, path, summary } = submit_form
  return tag === submit_form.tag ? [`- [${title}](${baseUrl}/docs#${id}): ${method} ${path}. ${summary}`] : []
}
