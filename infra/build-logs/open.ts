import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { BuildLogs } from './build-logs.ts'
import { openDiskBuildLogs } from './disk.ts'

/** Opens the logs of builds in the storage that `PLINTH_STORAGE_URL` names. */
export function openBuildLogs(url: string): BuildLogs {
  return openDiskBuildLogs(join(fileURLToPath(url), 'logs'))
}
