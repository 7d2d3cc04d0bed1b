import type { Operation } from '../operation.ts'
import type { RestShape } from '../rest.ts'

/** A command that calls the operation. `$KEY` is the key, and names in braces are to be filled in. */
export function curlCommand(op: Operation, shape: RestShape, baseUrl: string): string {
  const method = shape.method === 'GET' ? '' : ` -X ${shape.method}`
  const lines = [`curl${method} ${quoted(`${baseUrl}${shape.path}`)}`, '-H "Authorization: Bearer $KEY"']
  if (op.raw) {
    lines.push(`-H 'Content-Type: ${op.raw.mediaTypes[0]}'`, `--data-binary @${op.raw.name}`)
  } else if (op.example) {
    lines.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(op.example))}`)
  }
  return lines.join(' \\\n  ')
}

/** One word of a POSIX shell. */
const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`
