import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { processIdentity } from '../process-identity.ts'
import { sendSignal } from '../send-signal.ts'
import { waitUntil } from './wait.ts'

interface ProcessRecord {
  readonly pid: number
  readonly identity: string
}

/** Which children run, on disk: what a killed launcher leaves behind is ended by the next start. */
export interface ProcessRecords {
  add(name: string, pid: number): Promise<void>
  remove(name: string): Promise<void>
  /** Ends every recorded process that still runs, and its group. A pid that has been given to another process is left alone. */
  endLeftovers(): Promise<string[]>
}

export async function openProcessRecords(dir: string): Promise<ProcessRecords> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const fileOf = (name: string) => join(dir, `${name}.json`)
  const remove = (name: string) => rm(fileOf(name), { force: true })

  async function endLeftover(name: string): Promise<boolean> {
    const record = parse(await readFile(fileOf(name), 'utf8'))
    const runs = async () => record !== undefined && (await processIdentity(record.pid)) === record.identity
    const found = await runs()
    if (record && found) {
      sendSignal(-record.pid, 'SIGTERM')
      const gone = async () => !(await runs())
      await waitUntil(name, gone, { timeoutMs: 10_000 }).catch(() => sendSignal(-record.pid, 'SIGKILL'))
      await waitUntil(name, gone, { timeoutMs: 5000 })
      sendSignal(-record.pid, 'SIGKILL')
    }
    await remove(name)
    return found
  }

  return {
    async add(name, pid) {
      const identity = await processIdentity(pid)
      if (identity !== undefined) await writeFile(fileOf(name), JSON.stringify({ pid, identity } satisfies ProcessRecord))
    },
    remove,
    async endLeftovers() {
      const names = (await readdir(dir)).filter((file) => file.endsWith('.json')).map((file) => file.replace(/\.json$/, ''))
      const ended = await Promise.all(names.map(async (name) => ((await endLeftover(name)) ? [name] : [])))
      return ended.flat()
    },
  }
}

/** Undefined for a file that a crash cut off. */
function parse(text: string): ProcessRecord | undefined {
  try {
    return JSON.parse(text) as ProcessRecord
  } catch {
    return undefined
  }
}
