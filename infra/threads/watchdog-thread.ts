import { readFileSync, writeSync } from 'node:fs'
import { Session } from 'node:inspector'
import { SourceMap } from 'node:module'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { workerData } from 'node:worker_threads'
import { watchStandstill } from './standstill.ts'
import { collectGarbageOfStart } from './start-garbage.ts'
import { threadCpuMs } from './thread-cpu.ts'
import type { Watched } from './watchdog.ts'

// The thread that watches the event loop of its process: see watchdog.ts.

const { process: name, beats, launcher, standstillMs, orphanMs } = workerData as Watched

const lookMs = 500
const shownFrames = 12

const stillMs = watchStandstill(beats, mainThreadCpuMs)
let orphanedMs = 0

setInterval(look, lookMs)
collectGarbageOfStart()

function look(): void {
  // counted in looks: while the process is stopped or the machine asleep there are none
  if (launcher !== undefined && process.ppid !== launcher) orphanedMs += lookMs
  const still_ms = Math.round(stillMs())
  if (still_ms >= standstillMs) void end('the event loop stood still; the process was ended', { still_ms })
  else if (orphanedMs >= orphanMs) void end('the launcher has gone and the process did not end; it was ended', {})
}

/** Of all threads where the system does not tell them apart. */
function mainThreadCpuMs(): number {
  const { user, system } = process.cpuUsage()
  return threadCpuMs(process.pid) ?? (user + system) / 1000
}

async function end(msg: string, facts: Readonly<Record<string, unknown>>): Promise<void> {
  try {
    const stack = await Promise.race([mainThreadStack(), pause(1000, [])])
    const line = { level: 60, time: new Date().toISOString(), process: name, ...facts, stack, msg }
    writeSync(1, `${JSON.stringify(line)}\n`)
  } finally {
    process.kill(process.pid, 'SIGKILL')
  }
}

/** Where the main thread is, as `function file:line`; it stays stopped there. */
function mainThreadStack(): Promise<string[]> {
  const { promise, resolve } = Promise.withResolvers<string[]>()
  const session = new Session()
  const urls = new Map<string, string>()
  session.connectToMainThread()
  session.on('Debugger.scriptParsed', ({ params }) => urls.set(params.scriptId, params.url))
  session.on('Debugger.paused', ({ params }) =>
    resolve(
      params.callFrames
        .slice(0, shownFrames)
        .map(
          ({ functionName, location: { scriptId, lineNumber, columnNumber = 0 } }) =>
            `${functionName || '(anonymous)'} ${placeInSource(urls.get(scriptId) ?? '', lineNumber, columnNumber)}`,
        ),
    ),
  )
  session.post('Debugger.enable')
  session.post('Debugger.pause')
  return promise
}

/** The source's place where the script is a bundle with a map, else the script's. Lines and columns of the script count from 0. */
function placeInSource(url: string, line: number, column: number): string {
  try {
    const map = new SourceMap(JSON.parse(readFileSync(`${fileURLToPath(url)}.map`, 'utf8')))
    const entry = map.findEntry(line, column)
    if ('originalSource' in entry) return `${new URL(entry.originalSource, url).href}:${entry.originalLine + 1}`
  } catch {}
  return `${url}:${line + 1}`
}
