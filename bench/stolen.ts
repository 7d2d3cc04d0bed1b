import { readFile } from 'node:fs/promises'

/** Answers the share of this machine's processor time that the hypervisor has given to other guests since the call. */
export async function watchStolen(): Promise<() => Promise<number>> {
  const before = await look()
  return async () => {
    const now = await look()
    return (now.stolen - before.stolen) / (now.all - before.all)
  }
}

/** See proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal. */
async function look(): Promise<{ stolen: number; all: number }> {
  const times = (await readFile('/proc/stat', 'utf8')).split(/\s+/, 9).slice(1).map(Number)
  return { stolen: times[7] ?? 0, all: times.reduce((sum, ticks) => sum + ticks, 0) }
}
