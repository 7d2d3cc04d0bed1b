import { startChild } from '../../infra/local/child.ts'

// A launcher of one process, `node launcher-process.ts <program> <arguments…>`, that prints its pid when it is ready.

const child = await startChild({
  command: [process.execPath, ...process.argv.slice(2)],
  env: {},
  channel: true,
  stopSignal: 'SIGTERM',
  stopTimeoutMs: 1000,
})
while (!child.isReady()) await new Promise((resolve) => setTimeout(resolve, 10))
process.stdout.write(`${child.pid}\n`)
await child.exited
