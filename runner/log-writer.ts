import type { BuildLogs } from '../infra/build-logs/build-logs.ts'
import type { Logger } from '../infra/log.ts'

const flushMs = 250

/** Appends in the background, in order. What could not be written is tried again with the next, and never fails a build. */
export function createLogWriter(logs: BuildLogs, log: Logger, deployId: string) {
  let waiting = ''
  let timer: NodeJS.Timeout | undefined
  let writing = Promise.resolve()
  let reported = false

  function report(error: unknown): void {
    if (!reported) log.error({ err: error, deploy_id: deployId }, 'build log not written')
    reported = true
  }

  async function flush(): Promise<void> {
    timer = undefined
    const text = waiting
    waiting = ''
    if (text === '') return
    try {
      await logs.append(deployId, Buffer.from(text))
    } catch (error) {
      report(error)
      waiting = text + waiting
    }
  }

  function enqueue(): Promise<void> {
    writing = writing.then(flush)
    return writing
  }

  return {
    /** The size of the log of earlier attempts. */
    async before(): Promise<{ size: number; endsLine: boolean }> {
      try {
        const { size } = await logs.read(deployId, 0, 0)
        const last = size > 0 ? await logs.read(deployId, size - 1, 1) : undefined
        return { size, endsLine: last?.bytes[0] === 0x0a }
      } catch (error) {
        report(error)
        return { size: 0, endsLine: true }
      }
    },
    write(text: string): void {
      waiting += text
      timer ??= setTimeout(enqueue, flushMs)
    },
    async close(): Promise<void> {
      clearTimeout(timer)
      await enqueue()
    },
  }
}
