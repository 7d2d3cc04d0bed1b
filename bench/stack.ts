import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '../infra/config.ts'
import { freePort } from '../infra/local/ports.ts'
import { type Stack, startStack } from '../infra/local/stack.ts'

/** Everything that `npm start` runs, in a folder and on ports of its own; both are gone afterwards. `settings` go over the environment. */
export async function withStack(
  measure: (stack: Stack) => Promise<void>,
  settings: Readonly<Record<string, string>> = {},
): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'plinth-bench-'))
  // the user of PostgreSQL has to pass through
  await chmod(dir, 0o711)
  try {
    const own = { PLINTH_DATA_DIR: dir, PLINTH_HTTP_PORT: `${await freePort()}`, PLINTH_HTTPS_PORT: `${await freePort()}` }
    const config = loadConfig({ ...process.env, ...settings, ...own })
    await using stack = await startStack(config, { report: () => undefined, signal: new AbortController().signal })
    await measure(stack)
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}
