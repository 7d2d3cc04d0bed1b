import { ConfigError } from './config.ts'
import { collectGarbageOfStart } from './threads/start-garbage.ts'
import { startWatchdog, type WatchdogLimits } from './threads/watchdog.ts'

/**
 * Runs a process, `name` in its log, until SIGTERM or SIGINT. `open` starts everything and returns what has to be closed; closing drains.
 * A wrong setting is printed as one line, anything else with its stack; both exit with 1. When the event loop stands still the process is
 * ended by SIGKILL.
 */
export async function runMain(name: string, open: () => Promise<AsyncDisposable>, limits?: WatchdogLimits): Promise<void> {
  startWatchdog(name, limits)
  const stop = Promise.withResolvers<void>()
  process.once('SIGTERM', () => stop.resolve())
  process.once('SIGINT', () => stop.resolve())
  // the launcher, when there is one, has a channel to each of its processes: it learns when they are ready, they when it was killed
  process.once('disconnect', () => stop.resolve())
  try {
    await using _running = await open()
    process.send?.('ready')
    collectGarbageOfStart()
    await stop.promise
  } catch (error) {
    process.stderr.write(`${error instanceof ConfigError ? error.message : String((error as Error).stack ?? error)}\n`)
    process.exitCode = 1
  }
  // handles of libraries may outlive their close; everything of ours is closed by now
  process.exit()
}
