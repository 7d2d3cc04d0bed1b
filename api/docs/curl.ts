import type { Operation } from '../operation.ts'
import type { RestShape } from '../rest.ts'

export interface CurlContext {
  readonly baseUrl: string
  /** The variable of the shell that holds the key. */
  readonly keyVariable: string
}

/** A command that calls the operation. Names in braces are to be filled in. */
export function curlCommand(op: Operation, shape: RestShape, { baseUrl, keyVariable }: CurlContext): string {
  const method = shape.method === 'GET' ? '' : ` -X ${shape.method}`
  const lines = [`curl${method} ${quoted(`${baseUrl}${shape.path}`)}`, `-H "Authorization: Bearer $${keyVariable}"`]
  if (op.raw) {
    lines.push(`-H 'Content-Type: ${op.raw.mediaTypes[0]}'`, `--data-binary @${op.raw.name}`)
  } else if (op.example) {
    lines.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(op.example))}`)
  }
  return lines.join(' \\\n  ')
}

/** One word of a POSIX shell. */
const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`
