import { parentPort } from 'node:worker_threads'
import { findSecret } from '../../core/checks/secrets.ts'
import type { BlobFacts } from './blob-facts.ts'
import type { FileToRead } from './facts-reader.ts'
import { readPageFacts } from './page-facts.ts'

// The thread that reads files of tenants, one after the other: see facts-reader.ts. Its first message says that it is ready.

parentPort?.on('message', (file: FileToRead) => parentPort?.postMessage(JSON.stringify(factsOf(file))))
parentPort?.postMessage('ready')

function factsOf({ bytes, page }: FileToRead): BlobFacts {
  if (isUtf16(bytes)) return {}
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  // patterns of secrets are ASCII, and one byte per character is searched fastest
  const text = page ? buffer.toString('utf8') : buffer.toString('latin1')
  const secret = findSecret(text)
  return { ...(secret && { secret }), ...(page && { page: readPageFacts(text) }) }
}

function isUtf16([first, second]: Uint8Array): boolean {
  return (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)
}
