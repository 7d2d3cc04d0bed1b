import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from '../infra/log.ts'
import { replaceFile } from '../infra/replace-file.ts'

const kept = 3
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

export interface SnapshotOptions<T> {
  readonly dir: string
  /** The prefix of the file names. */
  readonly name: 'routes' | 'certificates'
  /** Completes an entry of an earlier version. */
  readonly complete: (entry: T) => T
  readonly log: Logger
  /** How long changes are collected before a snapshot is written. */
  readonly delayMs?: number | undefined
}

/** Keeps the entries of a table for the next start. Disposing writes pending changes. */
export interface Snapshots<T> extends AsyncDisposable {
  /** Loads the newest intact snapshot; empty when there is none. */
  load(): Promise<T[]>
  /** Schedules writing the entries; a table that takes long to write is written less often. */
  changed(entries: () => readonly T[]): void
}

/**
 * Entries on disk, so that an edge which starts without PostgreSQL knows them. A file is a line with the checksum and a line
 * of JSON, written whole or not at all; the last three are kept.
 */
export async function openSnapshots<T>({ dir, name, complete, log, delayMs = 1000 }: SnapshotOptions<T>): Promise<Snapshots<T>> {
  const files = await openFiles({ dir, name, complete, log })
  let timer: NodeJS.Timeout | undefined
  let latest: () => readonly T[] = () => []
  let saving: Promise<void> = Promise.resolve()
  let lastSaveMs = 0

  function save(): void {
    timer = undefined
    saving = saving.then(async () => {
      const startedAt = performance.now()
      try {
        await files.save(latest())
      } catch (error) {
        log.warn({ err: error }, `snapshot of ${name} could not be written`)
      }
      lastSaveMs = performance.now() - startedAt
    })
  }

  return {
    load: () => files.load(),
    changed(entries) {
      latest = entries
      timer ??= setTimeout(save, Math.max(delayMs, lastSaveMs * 20))
    },
    async [Symbol.asyncDispose]() {
      if (timer) {
        clearTimeout(timer)
        save()
      }
      await saving
    },
  }
}

async function openFiles<T>({ dir, name, complete, log }: Omit<SnapshotOptions<T>, 'delayMs'>) {
  const numbered = new RegExp(`^${name}-(\\d{12})\\.json$`)
  const format = `plinth-${name}-1`
  const parse = (text: string) => (readEntries(text, format) as T[] | undefined)?.map(complete)
  await mkdir(dir, { recursive: true })
  const newestFirst = async () =>
    (await readdir(dir))
      .filter((name) => numbered.test(name))
      .sort()
      .toReversed()

  return {
    /** Loads the newest intact snapshot; empty when there is none. A broken one is renamed to `.bad`. */
    async load(): Promise<T[]> {
      for (const file of await newestFirst()) {
        const entries = parse(await readFile(join(dir, file), 'utf8'))
        if (entries) return entries
        await rename(join(dir, file), join(dir, `${file}.bad`))
        log.error({ file }, 'broken snapshot set aside')
      }
      return []
    },

    async save(entries: readonly T[]): Promise<void> {
      const body = JSON.stringify(entries)
      const before = await newestFirst()
      const number = Number(numbered.exec(before[0] ?? '')?.[1] ?? 0) + 1
      const file = join(dir, `${name}-${String(number).padStart(12, '0')}.json`)
      await replaceFile(file, `${format} ${sha256(body)}\n${body}\n`, { mode: 0o600 })
      for (const file of before.slice(kept - 1)) await rm(join(dir, file), { force: true })
    },
  }
}

/** Undefined when the snapshot is incomplete. */
function readEntries(text: string, format: string): unknown {
  const [header, body = '', end, ...more] = text.split('\n')
  if (header !== `${format} ${sha256(body)}` || end !== '' || more.length > 0) return undefined
  return JSON.parse(body)
}
