import { expect, test } from 'vitest'
import { detectType } from '../../infra/file-type.ts'
import { files } from './delivery-fixtures.ts'

async function typeOf(bytes: Buffer, chunkBytes: number): Promise<string | undefined> {
  const detector = detectType()
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    if (!(await detector.see(bytes.subarray(at, at + chunkBytes)))) return undefined
  }
  return await detector.end()
}

test.each(files)('R07 53: %s is %s, in whatever chunks it comes', async (_what, expected, bytes) => {
  for (const chunkBytes of [1, 7, 64 * 1024]) {
    if (chunkBytes === 1 && bytes.length > 20_000) continue
    expect([chunkBytes, await typeOf(bytes, chunkBytes)]).toEqual([chunkBytes, expected])
  }
})
