import { execFile, spawnSync } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The name that every server answers to. */
export const host = 'bench.plinth.test'
export const connections = 64

export interface Load {
  readonly requestsPerSecond: number
  /** Undefined when the tool does not tell. */
  readonly p99Ms: number | undefined
  /** Requests that broke off or had another status than expected. */
  readonly failed: number
}

/** Whether a program can be started at all; it may dislike the argument. */
export const isInstalled = (program: string) => spawnSync(program, ['--version'], { stdio: 'ignore' }).error === undefined

/**
 * Loads a server over http/1.1.
 * @param script a file in Lua that chooses the paths
 */
export async function wrk(
  port: number,
  path: string,
  headers: readonly string[],
  seconds: number,
  script?: string,
): Promise<Load> {
  const fixed = ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', '-H', `Host: ${host}`]
  const given = [...headers.flatMap((header) => ['-H', header]), ...(script === undefined ? [] : ['-s', script])]
  const { stdout } = await run('wrk', [...fixed, ...given, `http://127.0.0.1:${port}${path}`])
  const [, p99, unit] = /99%\s+([\d.]+)(us|ms|s)/.exec(stdout) ?? []
  const socketErrors = [...(/Socket errors: (.*)/.exec(stdout)?.[1] ?? '').matchAll(/\d+/g)]
  return {
    requestsPerSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]),
    p99Ms: Number(p99) * (unit === 'us' ? 0.001 : unit === 's' ? 1000 : 1),
    failed: [/Non-2xx or 3xx responses: (\d+)/.exec(stdout)?.[1], ...socketErrors].reduce((sum, n) => sum + Number(n ?? 0), 0),
  }
}

/** Loads a server over https with HTTP/2, four requests at once on each connection: the edge takes 512 large files at once from one address. */
export async function h2load(port: number, path: string, seconds: number): Promise<Load> {
  const fixed = [`-c${connections}`, '-m4', '-D', `${seconds}`, '--warm-up-time', '0', `--connect-to=127.0.0.1:${port}`]
  const { stdout } = await run('h2load', [...fixed, `https://${host}:${port}${path}`])
  const [, failed = '0', errored = '0'] = /(\d+) failed, (\d+) errored/.exec(stdout) ?? []
  return {
    requestsPerSecond: Number(/finished in [^,]+, ([\d.]+) req\/s/.exec(stdout)?.[1]),
    p99Ms: undefined,
    failed: Number(failed) + Number(errored),
  }
}
