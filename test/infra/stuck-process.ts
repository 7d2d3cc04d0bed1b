import { runMain } from '../../infra/process.ts'

// A process that runs as ours do and gets stuck: `node stuck-process.ts <orphan ms>`. SIGUSR2 blocks its event loop; when it is stopped it never ends closing.

const [orphanMs] = process.argv.slice(2).map(Number)

await runMain(
  'stuck',
  async () => {
    process.on('SIGUSR2', function blockForEver() {
      for (;;);
    })
    // keeps it running
    setInterval(() => undefined, 1000)
    return { [Symbol.asyncDispose]: () => new Promise<void>(() => undefined) }
  },
  { standstillMs: 1000, orphanMs: orphanMs ?? 600_000 },
)
