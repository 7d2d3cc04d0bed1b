import { fileURLToPath } from 'node:url'
import type { Cas } from './cas.ts'
import { openDiskCas, openDiskCopy } from './disk.ts'

/** Opens the storage that `PLINTH_STORAGE_URL` names. */
export function openCas(url: string): Promise<Cas> {
  return openDiskCas(fileURLToPath(url))
}

/** Opens the copies of the storage that `PLINTH_STORAGE_COPIES` names. */
export const openCopies = (folders: readonly string[]): Pick<Cas, 'open'>[] => folders.map(openDiskCopy)
