import { fileURLToPath } from 'node:url'
import type { Cas } from './cas.ts'
import { openDiskCas } from './disk.ts'

/** Opens the storage that `PLINTH_STORAGE_URL` names. */
export function openCas(url: string): Promise<Cas> {
  return openDiskCas(fileURLToPath(url))
}
