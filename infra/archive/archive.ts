import { type FileHandle, open } from 'node:fs/promises'
import { invalid } from '../../core/errors.ts'
import type { SkippedPath } from '../../core/skipped-paths.ts'
import { type ArchiveOptions, startReading } from './reading.ts'
import { type ArchiveFormat, sniffArchive } from './sniff.ts'
import { readTarGz } from './tar.ts'
import { readZip } from './zip.ts'

export interface ArchiveContent {
  readonly paths: ReadonlySet<string>
  readonly skipped: readonly SkippedPath[]
}

/**
 * Reads the regular files of a tar.gz or a zip, streaming, and then the copies that its links stand for. Links out of the tree, devices and
 * entries with names outside of the tree are skipped and listed. A zip is read at random, so it has to be a file.
 * @throws AppError `invalid` for an archive that is damaged, encrypted, or lies about itself; `conflict` for one that is too large
 */
export async function readArchive(path: string, options: ArchiveOptions): Promise<ArchiveContent> {
  await using file = await open(path)
  const { size } = await file.stat()
  const format = await formatOf(file)
  if (!format) throw invalid('this is not an archive that can be opened; send a tar.gz or a zip')
  const reading = startReading(size, options)
  await (format === 'zip' ? readZip(file.fd, reading) : readTarGz(file, reading))
  await reading.copyLinks()
  return { paths: reading.filter.files, skipped: reading.filter.skipped.list() }
}

async function formatOf(file: FileHandle): Promise<ArchiveFormat | undefined> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, 0)
  return sniffArchive(buffer.subarray(0, bytesRead))
}
