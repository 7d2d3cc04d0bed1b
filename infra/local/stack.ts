import type { Config } from '../config.ts'
import { prepareBubblewrap, prepareBuildTools } from './build-tools.ts'
import { openDemo } from './demo.ts'
import { openParts, type Parts, timed } from './parts.ts'
import { type Prepared, prepareStart } from './prepare.ts'
import type { Ready } from './ready.ts'
import { removeUnusedCode } from './unused-cache.ts'
import { isolationLine } from './warnings.ts'

export interface StackOptions {
  /** Called with one line for people. */
  readonly report: (line: string) => void
  /** Gives up the start. What runs already is stopped by disposing. */
  readonly signal: AbortSignal
}

/** Everything that `npm start` runs. Disposing stops it, nothing before what needs it. */
export interface Stack extends Ready, AsyncDisposable {}

/**
 * Starts what the settings ask for, side by side where nothing waits for the other, and waits until all of it is ready.
 * When one part fails the others are stopped.
 * @throws ConfigError for what the operator has to correct, Error with log lines for what failed, the signal's reason when it is aborted
 */
export async function startStack(settings: Config, { report, signal: outer }: StackOptions): Promise<Stack> {
  const starting = new AbortController()
  const giveUp = () => starting.abort(outer.reason)
  outer.addEventListener('abort', giveUp)
  await using stack = new AsyncDisposableStack()
  const prepared = await prepareStart(settings, stack, report)
  const parts = openParts(prepared, stack, { report, signal: starting.signal })
  const config = await startAll(prepared, parts, starting, report)
  report(await isolationLine(config.build.dir))
  const { operatorToken } = prepared.config
  const demo =
    settings.database.url === undefined
      ? await timed('demo site', report, () => openDemo(config, operatorToken, { report, signal: starting.signal }))
      : undefined
  starting.signal.throwIfAborted()
  outer.removeEventListener('abort', giveUp)
  const started = stack.move()
  const { operatorTokenFile } = prepared
  removeUnusedCode(config.cacheDir, new Date()).catch((error: Error) =>
    report(`old files of the cache were not removed: ${error.message}`),
  )
  return { config, operatorTokenFile, demo, [Symbol.asyncDispose]: () => started.disposeAsync() }
}

/** Starts all parts, each as soon as what it needs is known, and answers the completed settings. */
async function startAll(
  { config, place }: Prepared,
  parts: Parts,
  starting: AbortController,
  report: (line: string) => void,
): Promise<Config> {
  const tools = { cacheDir: config.cacheDir, report, signal: starting.signal }
  const stores = Promise.all([parts.database(), parts.temporal()])
  const bubblewrap = prepareBubblewrap(config, place, tools)
  const build = timed('build tools', report, () => prepareBuildTools(config, place, bubblewrap, tools))
  const withStores = stores.then(([url, temporal]) => ({ ...config, database: { ...config.database, url }, temporal }))
  // the api confines the decoding of images, and does not wait for the toolchain of builds
  const withBubblewrap = Promise.all([withStores, bubblewrap]).then(([config, bwrap]) => ({
    ...config,
    build: { ...config.build, bwrap },
  }))
  const complete = Promise.all([withStores, build]).then(([config, build]) => ({ ...config, build }))
  await allOrNone(starting, [
    parts.entrance(),
    stores,
    build,
    parts.main('api', withBubblewrap),
    parts.main('edge', withStores),
    parts.main('worker', withStores),
    parts.main('runner', complete),
  ])
  return await complete
}

/** Waits for all of them, also when one fails: what is starting has to be stopped. */
async function allOrNone(starting: AbortController, work: readonly Promise<unknown>[]): Promise<void> {
  for (const one of work) one.catch((error: unknown) => starting.abort(error))
  await Promise.allSettled(work)
  starting.signal.throwIfAborted()
}
