import type { Dirent } from 'node:fs'
import { appendFile, mkdir, open, readdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { BuildLogs, LogPart } from './build-logs.ts'

const nothing: LogPart = { bytes: Buffer.alloc(0), size: 0 }

/** Logs as files `ab/<deploy_id>`; ids begin with the time of their creation, so the folder is named after their last two characters. */
export function openDiskBuildLogs(root: string): BuildLogs {
  function pathOf(deployId: string): string {
    if (!/^[\w-]{2,64}$/.test(deployId)) throw new Error('this is not the id of a deploy')
    return join(root, deployId.slice(-2), deployId)
  }

  return {
    async append(deployId, bytes) {
      const path = pathOf(deployId)
      const write = () => appendFile(path, bytes, { mode: 0o600 })
      try {
        await write()
      } catch (error) {
        if (!isAbsent(error)) throw error
        await mkdir(dirname(path), { recursive: true, mode: 0o700 })
        await write()
      }
    },

    async read(deployId, offset, maxBytes) {
      const file = await open(pathOf(deployId)).catch(ignoreAbsent)
      if (!file) return nothing
      await using opened = file
      const { size } = await opened.stat()
      const bytes = Buffer.alloc(Math.max(0, Math.min(maxBytes, size - offset)))
      const { bytesRead } = bytes.length > 0 ? await opened.read(bytes, 0, bytes.length, offset) : { bytesRead: 0 }
      return { bytes: bytes.subarray(0, bytesRead), size }
    },

    async remove(deployId) {
      await rm(pathOf(deployId), { force: true })
    },

    async *list() {
      for (const folder of await entries(root)) {
        if (!folder.isDirectory()) continue
        for (const file of await entries(join(root, folder.name))) yield file.name
      }
    },
  }
}

const entries = async (folder: string): Promise<Dirent[]> =>
  (await readdir(folder, { withFileTypes: true }).catch(ignoreAbsent)) ?? []

const isAbsent = (error: unknown) => (error as NodeJS.ErrnoException).code === 'ENOENT'

function ignoreAbsent(error: unknown): undefined {
  if (!isAbsent(error)) throw error
}
