import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { openCas } from '../../infra/cas/open.ts'

// Writes objects of many sizes, at once and in parts, with and without a gzip variant, until it is killed. Prints the hash of each that was stored.

const [, , url = ''] = process.argv
const cas = await openCas(url)
const sizes = [0, 100, 5000, 200_000, 1_000_000]
process.send?.('ready')
await Promise.all(
  sizes.map(async (size, n) => {
    for (let i = 0; ; i++) {
      // text, which is worth a variant, and noise, which is not
      const bytes = i % 2 === 0 ? Buffer.from(randomBytes(size / 2).toString('hex')) : randomBytes(size)
      const source = (i + n) % 3 === 0 ? Readable.from([bytes.subarray(0, size / 3), bytes.subarray(size / 3)]) : bytes
      const { sha256 } = await cas.put(source, { compress: () => i % 4 === 0 })
      process.stdout.write(`${sha256}\n`)
    }
  }),
)
