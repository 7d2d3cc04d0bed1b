import { readFile, writeFile } from 'node:fs/promises'

/** From now on the peak of a process starts from zero: what it took to prepare a test is not meant. */
export const resetPeak = (pid: number) => writeFile(`/proc/${pid}/clear_refs`, '5')

/** The most memory that a process has had since then, in MiB. */
export async function peakMemory(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024
}
