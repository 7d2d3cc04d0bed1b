import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Encoding } from '../../core/encodings.ts'

/** The suffix of an encoded variant. */
export const suffix = { gzip: '.gz', br: '.br', zstd: '.zst' } as const satisfies Record<Encoding, string>

/** The folders of a storage on disk. */
export interface Layout {
  /** Files that are being written, and folders of batches. */
  readonly incoming: string
  readonly objects: string
  /** Damaged objects. */
  readonly quarantine: string
  readonly pathOf: (sha256: string) => string
  /** Folders of `objects` that are known to exist. */
  readonly madeFolders: Set<string>
}

export const pathIn = (root: string, sha256: string) => `${root}/objects/${sha256.slice(0, 2)}/${sha256.slice(2)}`

export async function openLayout(root: string): Promise<Layout> {
  const incoming = join(root, 'incoming')
  const objects = join(root, 'objects')
  await mkdir(incoming, { recursive: true })
  await mkdir(objects, { recursive: true })
  const quarantine = join(root, 'quarantine')
  return { incoming, objects, quarantine, pathOf: (sha256) => pathIn(root, sha256), madeFolders: new Set() }
}
