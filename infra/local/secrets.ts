import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { replaceFile } from '../replace-file.ts'

/** Reads a secret that only this user can read; undefined when there is none. */
export const readSecret = (file: string) =>
  readFile(file, 'utf8').then(
    (text) => text.trim() || undefined,
    (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
      return undefined
    },
  )

/** The secret in the file, or the one that the first start generated: 32 random bytes. */
export async function openSecret(file: string, encoding: 'base64' | 'base64url'): Promise<string> {
  const kept = await readSecret(file)
  if (kept !== undefined) return kept
  const made = randomBytes(32).toString(encoding)
  await writeSecret(file, made)
  return made
}

/** Keeps a secret, readable by this user only. */
export const writeSecret = (file: string, secret: string): Promise<void> => replaceFile(file, `${secret}\n`, { mode: 0o600 })
