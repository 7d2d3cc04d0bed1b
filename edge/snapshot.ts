import { mkdir, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from '../infra/log.ts'
import { replaceFile } from '../infra/replace-file.ts'
import { readChecked, writeChecked } from './checked-json.ts'

const kept = 3
const empty = { incarnation: undefined, entries: [] }

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

export interface SnapshotContent<T> {
  /** The incarnation of the database that the versions of the entries belong to; undefined in snapshots of earlier releases. */
  readonly incarnation: string | undefined
  readonly entries: readonly T[]
}

/** Keeps the entries of a table for the next start. Disposing writes pending changes. */
export interface Snapshots<T> extends AsyncDisposable {
  /** Loads the newest intact snapshot; empty when there is none. */
  load(): Promise<SnapshotContent<T>>
  /** Schedules writing the content; a table that takes long to write is written less often. */
  changed(content: () => SnapshotContent<T>): void
  /** Notes the instant, in milliseconds, up to which the entries have every change. */
  confirm(nowMs: number): void
  /** The latest such instant: at first that of the loaded snapshot, 0 for none. */
  readonly confirmedMs: number
}

/**
 * Entries on disk, so that an edge which starts without PostgreSQL knows them. A file is a line with the checksum and a line
 * of JSON, written whole or not at all; the last three are kept.
 */
export async function openSnapshots<T>({ dir, name, complete, log, delayMs = 1000 }: SnapshotOptions<T>): Promise<Snapshots<T>> {
  const files = await openFiles({ dir, name, complete, log })
  let timer: NodeJS.Timeout | undefined
  let latest: () => SnapshotContent<T> = () => empty
  let saving: Promise<void> = Promise.resolve()
  let lastSaveMs = 0
  let confirmedMs = 0
  /** Whether the newest snapshot has every change that is known. */
  let isSaved = true

  /** One after the other. */
  function write(task: () => Promise<void>): void {
    saving = saving.then(task).catch((error: Error) => log.warn({ err: error }, `snapshot of ${name} could not be written`))
  }

  function save(): void {
    timer = undefined
    write(async () => {
      const startedAt = performance.now()
      isSaved = true
      try {
        await files.save(latest(), confirmedMs)
      } catch (error) {
        isSaved = false
        throw error
      } finally {
        lastSaveMs = performance.now() - startedAt
      }
    })
  }

  return {
    async load() {
      const loaded = await files.load()
      confirmedMs = loaded.confirmedMs
      return loaded.content
    },
    changed(content) {
      latest = content
      isSaved = false
      timer ??= setTimeout(save, Math.max(delayMs, lastSaveMs * 20))
    },
    confirm(nowMs) {
      confirmedMs = nowMs
      write(async () => {
        if (isSaved) await files.confirm(nowMs)
      })
    },
    get confirmedMs() {
      return confirmedMs
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
  const format = `plinth-${name}-2`
  const ofEarlierRelease = (text: string) => {
    const entries = readChecked(`plinth-${name}-1`, text) as T[] | undefined
    return entries && { incarnation: undefined, entries }
  }
  const parse = (text: string): SnapshotContent<T> | undefined => {
    const content = (readChecked(format, text) as SnapshotContent<T> | undefined) ?? ofEarlierRelease(text)
    return content && { ...content, entries: content.entries.map(complete) }
  }
  await mkdir(dir, { recursive: true })
  const newestFirst = async () =>
    (await readdir(dir))
      .filter((name) => numbered.test(name))
      .sort()
      .toReversed()

  /** The newest intact snapshot, whose time of modification is the instant up to which it has every change. */
  let newest: string | undefined
  async function confirm(ms: number): Promise<void> {
    if (newest !== undefined) await utimes(newest, new Date(ms), new Date(ms))
  }

  return {
    confirm,

    /** Loads the newest intact snapshot; empty when there is none. A broken one is renamed to `.bad`. */
    async load(): Promise<{ content: SnapshotContent<T>; confirmedMs: number }> {
      for (const file of await newestFirst()) {
        const path = join(dir, file)
        const content = parse(await readFile(path, 'utf8'))
        if (content) {
          newest = path
          return { content, confirmedMs: Math.floor((await stat(path)).mtimeMs) }
        }
        await rename(path, `${path}.bad`)
        log.error({ file }, 'broken snapshot set aside')
      }
      return { content: empty, confirmedMs: 0 }
    },

    async save(content: SnapshotContent<T>, confirmedMs: number): Promise<void> {
      const text = writeChecked(format, content)
      const before = await newestFirst()
      const number = Number(numbered.exec(before[0] ?? '')?.[1] ?? 0) + 1
      const file = join(dir, `${name}-${String(number).padStart(12, '0')}.json`)
      await replaceFile(file, text, { mode: 0o600 })
      newest = file
      await confirm(confirmedMs)
      for (const file of before.slice(kept - 1)) await rm(join(dir, file), { force: true })
    },
  }
}
