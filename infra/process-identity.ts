import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'

/**
 * Names one running process: unlike its pid, this is never given to another one. Undefined when there is none, or only its corpse.
 * On Linux it is the boot and the start time in clock ticks, elsewhere the start time as `ps` prints it.
 */
export async function processIdentity(pid: number): Promise<string | undefined> {
  const [status, boot] = await Promise.all([read(`/proc/${pid}/stat`), read('/proc/sys/kernel/random/boot_id')])
  if (boot === undefined) {
    // it fails for a process that is not there
    const found = await promisify(execFile)('ps', ['-o', 'lstart=', '-p', String(pid)]).catch(() => undefined)
    return found?.stdout.trim() || undefined
  }
  // the name in brackets may hold anything; the fields after it begin with the state
  const fields = status?.slice(status.lastIndexOf(')') + 2).split(' ')
  return fields === undefined || fields[0] === 'Z' ? undefined : `${boot.trim()} ${fields[19]}`
}

const read = (file: string) => readFile(file, 'utf8').catch(() => undefined)
