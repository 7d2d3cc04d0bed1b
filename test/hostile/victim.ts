import { fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

// A victim asks for the same thing again and again in a process of its own, so that building an attack's requests does not delay it.

export interface VictimRequest {
  readonly port: number
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

export interface Suffered {
  /** Milliseconds of the slowest answer. */
  readonly worst: number
  readonly median: number
  readonly p90: number
  readonly answers: number
  /** Answers that were not 200, by status; 0 is a connection that broke. */
  readonly failed: Readonly<Record<number, number>>
}

/** Asks every 25 ms until it is stopped; the answer that is under way then still counts. */
export function watchVictim(wanted: VictimRequest): () => Promise<Suffered> {
  const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(wanted)])
  return async () => {
    child.send('stop')
    const [suffered] = (await once(child, 'message')) as [Suffered]
    child.disconnect()
    return suffered
  }
}

async function suffer({ body, ...options }: VictimRequest): Promise<Suffered> {
  const stopped = new AbortController()
  process.once('message', () => stopped.abort())
  const agent = new Agent({ keepAlive: true })
  const times: number[] = []
  const failed: Record<number, number> = {}
  do {
    const began = performance.now()
    const status = await ask({ ...options, agent }, body).catch(() => 0)
    times.push(performance.now() - began)
    if (status !== 200) failed[status] = (failed[status] ?? 0) + 1
    await pause(25)
  } while (!stopped.signal.aborted)
  agent.destroy()
  const sorted = times.toSorted((a, b) => a - b)
  return {
    worst: sorted.at(-1) ?? 0,
    median: sorted[Math.floor(sorted.length / 2)] ?? 0,
    p90: sorted[Math.floor(sorted.length * 0.9)] ?? 0,
    answers: times.length,
    failed,
  }
}

async function ask(options: object, body: string | undefined): Promise<number> {
  const outgoing = request({ ...options, host: '127.0.0.1' })
  outgoing.end(body)
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  response.resume()
  await once(response, 'end')
  return response.statusCode ?? 0
}

const [, program, wanted] = process.argv
if (program === fileURLToPath(import.meta.url) && wanted !== undefined) process.send?.(await suffer(JSON.parse(wanted)))
