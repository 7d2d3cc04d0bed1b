import { randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** A folder of new files, which is created with the first of them. Disposing removes it with the remaining files. */
export interface BatchFolder extends AsyncDisposable {
  /** Writes a file and flushes it; a failed write leaves nothing behind. */
  write<Result>(fill: (file: FileHandle) => Promise<Result>): Promise<{ path: string; result: Result }>
}

export function openBatchFolder(incoming: string): BatchFolder {
  const folder = join(incoming, randomUUID())
  let making: Promise<unknown> | undefined
  return {
    async write(fill) {
      making ??= mkdir(folder)
      await making
      const path = join(folder, randomUUID())
      const file = await open(path, 'wx', 0o444)
      try {
        const result = await fill(file)
        await file.sync()
        return { path, result }
      } catch (error) {
        await rm(path, { force: true })
        throw error
      } finally {
        await file.close()
      }
    },

    async [Symbol.asyncDispose]() {
      await making?.catch(() => undefined)
      if (making) await rm(folder, { recursive: true, force: true })
    },
  }
}
