import { readFileSync, readlinkSync } from 'node:fs'

const clockTickMs = 10

/** The system's id of the thread that asks; undefined where there is no /proc. */
export function threadId(): number | undefined {
  try {
    return Number(readlinkSync('/proc/thread-self').split('/').at(-1))
  } catch {
    return undefined
  }
}

/** The processor time that a thread of this process has used, in ms; undefined where the system does not tell threads apart. */
export function threadCpuMs(id: number): number | undefined {
  try {
    // the name in brackets may hold anything; utime and stime are the 12th and 13th field behind it
    const status = readFileSync(`/proc/self/task/${id}/stat`, 'utf8')
    const [user, system] = status
      .slice(status.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 13)
      .map(Number)
    return ((user ?? 0) + (system ?? 0)) * clockTickMs
  } catch {
    return undefined
  }
}
