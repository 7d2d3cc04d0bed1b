import { setTimeout as pause } from 'node:timers/promises'
import { sql } from 'kysely'
import { openDatabase } from '../../infra/db/database.ts'
import type { Logger } from '../../infra/log.ts'

/** Counts the downloads of files. Disposal writes what is left. */
export interface DownloadCounts extends AsyncDisposable {
  add(fileId: string): void
}

const writeEveryMs = 2000
/** Files that are counted between two writes; downloads of more files are not counted. */
const maxFiles = 10_000

/**
 * Gathers downloads in memory and adds them to the rows of their files in batches. While PostgreSQL is away they are gathered for longer; what
 * was gathered since the last write is lost only when the process is killed. A batch whose commit was not confirmed is written again, and may
 * then count twice.
 */
export function openDownloadCounts(databaseUrl: string, log: Logger, delayMs = writeEveryMs): DownloadCounts {
  const { db, ...database } = openDatabase(databaseUrl)
  const stop = new AbortController()
  let counts = new Map<string, number>()
  let writing: Promise<void> | undefined

  function add(fileId: string, downloads = 1): void {
    const known = counts.get(fileId)
    if (known === undefined && counts.size >= maxFiles) return
    counts.set(fileId, (known ?? 0) + downloads)
  }

  async function write(): Promise<void> {
    const batch = counts
    if (batch.size === 0) return
    counts = new Map()
    try {
      await sql`
        with counted as (
          select id, downloads from unnest(${[...batch.keys()]}::uuid[], ${[...batch.values()]}::bigint[]) as one (id, downloads)
        ), locked as (
          select id from delivery_files where id in (select id from counted) order by id for no key update
        )
        update delivery_files set downloads = delivery_files.downloads + counted.downloads
        from counted join locked on locked.id = counted.id where delivery_files.id = counted.id`.execute(db)
    } catch (error) {
      for (const [id, downloads] of batch) add(id, downloads)
      log.warn({ err: error, files: batch.size }, 'downloads not counted yet')
    }
  }

  async function writeSoon(): Promise<void> {
    while (counts.size > 0 && !stop.signal.aborted) {
      await pause(delayMs, undefined, { ref: false, signal: stop.signal }).catch(() => undefined)
      await write()
    }
    writing = undefined
  }

  return {
    add(fileId) {
      add(fileId)
      writing ??= writeSoon()
    },
    async [Symbol.asyncDispose]() {
      stop.abort()
      await writing
      await write()
      await database[Symbol.asyncDispose]()
    },
  }
}
