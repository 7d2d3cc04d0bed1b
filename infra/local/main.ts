import { ConfigError, loadConfig } from '../config.ts'
import { collectGarbageOfStart } from '../threads/start-garbage.ts'
import { readyLines } from './ready.ts'
import { startStack } from './stack.ts'
import { settingWarnings } from './warnings.ts'

// a terminal that was closed, or a pipe whose reader has gone, must not keep the rest from being stopped in good order
for (const output of [process.stdout, process.stderr]) output.on('error', () => undefined)

const print = (line: string) => process.stdout.write(`${line}\n`)

/** `npm start`: runs the whole platform on this machine until SIGTERM, SIGINT or SIGHUP, then stops all of it. */
async function main(): Promise<void> {
  const stop = new AbortController()
  const stopped = Promise.withResolvers<void>()
  // also the second Ctrl-C: the first one has begun to stop in good order
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(signal, () => {
      if (stop.signal.aborted) return
      print('stopping')
      stop.abort(signal)
      stopped.resolve()
    })
  }
  const startedAt = performance.now()
  try {
    const config = loadConfig()
    for (const name of config.unknownSettings) print(`${name} is not a setting of this version and is ignored`)
    for (const line of settingWarnings(config)) print(line)
    await using stack = await startStack(config, { report: print, signal: stop.signal })
    print(`started in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
    for (const line of readyLines(stack)) print(line)
    collectGarbageOfStart()
    await stopped.promise
  } catch (error) {
    if (stop.signal.aborted && error === stop.signal.reason) return
    process.stderr.write(`${error instanceof ConfigError ? error.message : `npm start failed: ${(error as Error).message}`}\n`)
    process.exitCode = 1
  }
}

await main()
// libraries may hold handles; every process of ours has ended by now
process.exit()
