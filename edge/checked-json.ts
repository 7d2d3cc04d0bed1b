import { sha256Hex } from '../infra/crypto/sha256.ts'

/** A file with a checksum: a line with its format and the hash of the rest, and a line of JSON. */
export function writeChecked(format: string, value: unknown): string {
  const body = JSON.stringify(value)
  return `${format} ${sha256Hex(body)}\n${body}\n`
}

/** Undefined when the file is incomplete, was changed or has another format. */
export function readChecked(format: string, text: string): unknown {
  const [header, body = '', end, ...more] = text.split('\n')
  if (header !== `${format} ${sha256Hex(body)}` || end !== '' || more.length > 0) return undefined
  return JSON.parse(body)
}
