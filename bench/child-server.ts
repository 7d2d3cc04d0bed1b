import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { nodeFlags } from '../infra/local/main-process.ts'

export interface ChildServer extends AsyncDisposable {
  readonly port: number
  readonly pid: number
}

/** Runs a program that prints the port it listens on, until it is disposed. All have the flags of the edge, so that they are compared as it runs. */
export async function startServer(program: string, ...args: string[]): Promise<ChildServer> {
  const child = spawn(process.execPath, [...nodeFlags.edge, program, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  return {
    port: Number(line),
    pid: child.pid as number,
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM')
      await once(child, 'exit')
    },
  }
}

/** A Node server that only says "ok". */
export const startBareServer = () => startServer(join(import.meta.dirname, 'bare-server.ts'))
