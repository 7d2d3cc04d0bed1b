import { encodeText, type Text, type Variants } from './encode-bytes.ts'

// The process that compresses texts of tenants, at a low priority: see compressor.ts. When its channel closes, its parent is gone.

process.once('disconnect', () => process.exit())
process.on('message', (texts: readonly Text[]) => void answer(texts))
process.send?.('ready')

async function answer(texts: readonly Text[]): Promise<void> {
  const variants: Variants[] = []
  for (const text of texts) variants.push(await encodeText(text))
  process.send?.(variants)
}
