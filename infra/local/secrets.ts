import { readFile, rename, writeFile } from 'node:fs/promises'

/** Reads a secret that only this user can read; undefined when there is none. */
export const readSecret = (file: string) =>
  readFile(file, 'utf8').then(
    (text) => text.trim() || undefined,
    (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
      return undefined
    },
  )

/** Keeps a secret, readable by this user only; a reader never sees half of it. */
export async function writeSecret(file: string, secret: string): Promise<void> {
  await writeFile(`${file}.new`, `${secret}\n`, { mode: 0o600 })
  await rename(`${file}.new`, file)
}
