import { randomUUID } from 'node:crypto'
import { mkdir, open, rm } from 'node:fs/promises'
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

export const objectsIn = (root: string) => `${root}/objects`

/** The name of the file of an object, or of a variant of it, below {@link objectsIn}. */
export const fileName = (sha256: string, encoding?: Encoding) =>
  `${sha256.slice(0, 2)}/${sha256.slice(2)}${encoding ? suffix[encoding] : ''}`

export const pathIn = (root: string, sha256: string, encoding?: Encoding) => `${objectsIn(root)}/${fileName(sha256, encoding)}`

export async function openLayout(root: string): Promise<Layout> {
  const incoming = join(root, 'incoming')
  const objects = objectsIn(root)
  await mkdir(incoming, { recursive: true })
  await mkdir(objects, { recursive: true })
  const quarantine = join(root, 'quarantine')
  return { incoming, objects, quarantine, pathOf: (sha256) => pathIn(root, sha256), madeFolders: new Set() }
}

/** The time by the clock that dates files, which is another machine's when the folder is. */
export async function storageTime({ incoming }: Layout): Promise<Date> {
  const path = join(incoming, randomUUID())
  try {
    await using file = await open(path, 'wx')
    return (await file.stat()).mtime
  } finally {
    await rm(path, { force: true })
  }
}
