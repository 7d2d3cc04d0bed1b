import { closeSync, fsyncSync, openSync, renameSync, writeFileSync } from 'node:fs'
import { open, readdir, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'

interface ReplaceOptions {
  /** Permissions, less the umask. */
  readonly mode?: number
  /** Where the content is written first: a name that no other process writes to. */
  readonly temporary?: string
}

/** Writes a file in one step: a reader finds its previous content or all of the new one, even after a loss of power. */
export async function replaceFile(
  file: string,
  content: string | Uint8Array,
  { mode = 0o644, temporary = `${file}.tmp` }: ReplaceOptions = {},
): Promise<void> {
  await writeDurably(temporary, content, mode)
  await rename(temporary, file)
  await flushFolder(dirname(file))
}

async function writeDurably(path: string, content: string | Uint8Array, mode: number): Promise<void> {
  const file = await open(path, 'w', mode)
  try {
    await file.writeFile(content)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Makes the names in a folder durable. */
export const flushFolder = (path: string): Promise<void> => flush(path)

/** Makes all that is in a folder durable. */
export async function flushTree(path: string): Promise<void> {
  for (const name of await readdir(path, { recursive: true })) await flush(join(path, name))
  await flush(path)
}

async function flush(path: string): Promise<void> {
  const file = await open(path, 'r')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

/** `replaceFile` for a thread of its own, which may wait for the disk. */
export function replaceFileSync(
  file: string,
  content: string | Uint8Array,
  { mode = 0o644, temporary = `${file}.tmp` }: ReplaceOptions = {},
): void {
  writeDurablySync(temporary, content, mode)
  renameSync(temporary, file)
  flushFolderSync(dirname(file))
}

function writeDurablySync(path: string, content: string | Uint8Array, mode: number): void {
  const fd = openSync(path, 'w', mode)
  try {
    writeFileSync(fd, content)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

function flushFolderSync(path: string): void {
  const fd = openSync(path, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
