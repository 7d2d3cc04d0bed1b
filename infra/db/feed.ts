import { setTimeout } from 'node:timers/promises'
import { Kysely, PostgresDialect, type PostgresPoolClient } from 'kysely'
import pg from 'pg'
import { pause } from '../pause.ts'
import type { Db } from './database.ts'
import { incarnationChannel, readIncarnation } from './incarnation.ts'
import type { DB } from './schema.ts'
import { namesOfProcess, sendStatement } from './statements.ts'

/**
 * Rows that a process keeps in memory. Each read passes its rows on; reads run one at a time, and a later one never finds an older state of
 * the database.
 */
export interface Feed {
  /** Notifications begin with the id of a row; the text after a colon is ignored. */
  readonly channel: string
  /**
   * Called before each read of all rows. Those that are known from another incarnation are to be replaced, whatever their version, and those that
   * are absent to be forgotten.
   */
  useIncarnation(incarnation: string): void
  /** Reads every row that may have changed; absent ones have been deleted. Returns when the latest of them changed, in milliseconds; 0 for none. */
  readAll(db: Db): Promise<number>
  /** Reads the rows that changed after the instant; returns the same as `readAll`. */
  readSince(db: Db, since: Date): Promise<number>
  /** Reads rows that may have changed or been deleted. */
  readNamed(db: Db, ids: readonly string[]): Promise<void>
  /** Called on each connection before its first read. */
  begin?(db: Db): Promise<void>
  /** Called on the connection that is open when the process stops, which does not wait long for it. It must not throw. */
  end?(db: Db): Promise<void>
}

/** Called with false and the reason as soon as changes may be missed, and with true after everything has been read and after each later poll. */
export type SetConnected = (connected: boolean, reason?: string) => void

export interface FollowOptions {
  /** How often to look for changes whose notification was missed. */
  readonly pollMs?: number
  /** How often everything is read again, because a deleted row leaves no trace. */
  readonly reloadMs?: number
  /** Called whenever PostgreSQL has answered. */
  readonly answered?: () => void
}

/** Changes are stamped before their commit; a transaction may be this much older than the newest stamp that was read. */
const overlapMs = 60_000
/** After more notifications at once than this, everything is read. */
const maxNamedRows = 1000
const firstPauseMs = 100
/**
 * The longest pause between tries, each of which costs one connection. With a longer one, visitors who were removed from a closed site would still
 * be inside a second after PostgreSQL is back, and others would see old content.
 */
const longestPauseMs = 500
/** A server that does not answer must not hold up a process that stops. */
const endPatienceMs = 1000

/**
 * Follows the feeds over one connection until disposed. While PostgreSQL is away it retries with growing pauses, and the rows that were read
 * before stay.
 */
export function follow(
  url: string,
  feeds: readonly Feed[],
  setConnected: SetConnected,
  options: FollowOptions = {},
): AsyncDisposable {
  const stop = new AbortController()
  let pauseMs = firstPauseMs
  const complete = () => {
    pauseMs = firstPauseMs
    setConnected(true)
  }

  async function run(): Promise<void> {
    while (!stop.signal.aborted) {
      try {
        await followOnce(url, stop.signal, options, feeds, complete)
      } catch (error) {
        setConnected(false, reasonOf(error as Error))
        await pause(pauseMs * (0.5 + Math.random() / 2), stop.signal)
        pauseMs = Math.min(pauseMs * 2, longestPauseMs)
      }
    }
  }

  const running = run()
  return {
    async [Symbol.asyncDispose]() {
      stop.abort()
      await running
    },
  }
}

/** The error of a host with several addresses has no message. */
const reasonOf = (error: NodeJS.ErrnoException) => error.message || (error.code ?? error.name)

/** Follows the feeds over one connection. Returns on stop, and throws when the connection is lost. */
async function followOnce(
  url: string,
  stop: AbortSignal,
  options: FollowOptions,
  feeds: readonly Feed[],
  complete: () => void,
): Promise<void> {
  await using listener = await listen(url, stop, feeds, options)
  const { db } = listener
  const newest = new Map<Feed, number>()
  let incarnation = ''
  for (const feed of feeds) await feed.begin?.(db)
  for (;;) {
    const due = await listener.next()
    if (!due) {
      const ended = Promise.all(feeds.map(async (feed) => await feed.end?.(db)))
      await Promise.race([ended, setTimeout(endPatienceMs, undefined, { ref: false })])
      return
    }
    const former = incarnation
    if (due.reload || due.poll) incarnation = await readIncarnation(db)
    if (due.reload || incarnation !== former) {
      for (const feed of feeds) feed.useIncarnation(incarnation)
      for (const feed of feeds) newest.set(feed, await feed.readAll(db))
      complete()
      continue
    }
    for (const feed of feeds) {
      const ids = due.named.get(feed.channel) ?? []
      if (ids.length > 0) await feed.readNamed(db, ids)
      if (!due.poll) continue
      const known = newest.get(feed) ?? 0
      newest.set(feed, Math.max(known, await feed.readSince(db, new Date(known - overlapMs))))
    }
    if (due.poll) complete()
  }
}

/** The next read. */
interface Due {
  readonly reload: boolean
  readonly poll: boolean
  /** Ids that notifications named, by channel; a burst of them is one read. */
  readonly named: ReadonlyMap<string, readonly string[]>
}

interface Listener extends AsyncDisposable {
  /** The listening connection. It counts as lost when a read fails or takes too long. */
  readonly db: Db
  /** Waits for the next read; the first is always a reload. Undefined on stop. @throws when the connection is lost */
  next(): Promise<Due | undefined>
}

/** Listens before the first read, so that no change is missed in between. */
async function listen(url: string, stop: AbortSignal, feeds: readonly Feed[], options: FollowOptions): Promise<Listener> {
  const { pollMs = 5000, reloadMs = 300_000, answered = () => undefined } = options
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 2000,
    query_timeout: 10_000,
    keepAlive: true,
    application_name: 'plinth edge routes',
  })
  const named = new Map(feeds.map(({ channel }) => [channel, new Set<string>()]))
  const namedCount = () => [...named.values()].reduce((sum, ids) => sum + ids.size, 0)
  let reload = true
  let poll = false
  let lost: Error | undefined
  let wake = Promise.withResolvers<void>()
  const waking = (change: () => void) => () => {
    change()
    wake.resolve()
  }
  const isDue = () => stop.aborted || lost !== undefined || reload || poll || namedCount() > 0
  const onStop = waking(() => undefined)

  client.on('error', (error) => waking(() => (lost ??= error))())
  client.on('notification', ({ channel, payload = '' }) =>
    waking(() => {
      if (channel === incarnationChannel) reload = true
      else named.get(channel)?.add(payload.split(':', 1)[0] ?? '')
    })(),
  )
  await using opened = new AsyncDisposableStack()
  // closing the connection to a server that does not answer would take for ever
  opened.defer(() => Promise.race([client.end().catch(() => undefined), setTimeout(endPatienceMs, undefined, { ref: false })]))
  await client.connect()
  answered()
  for (const channel of [incarnationChannel, ...named.keys()]) await client.query(`listen ${channel}`)
  opened.adopt(
    setInterval(
      waking(() => (poll = true)),
      pollMs,
    ),
    clearInterval,
  )
  opened.adopt(
    setInterval(
      waking(() => (reload = true)),
      reloadMs,
    ),
    clearInterval,
  )
  stop.addEventListener('abort', onStop)
  opened.defer(() => stop.removeEventListener('abort', onStop))
  const stack = opened.move()

  return {
    db: overOneClient(client, answered),
    async next() {
      while (!isDue()) {
        wake = Promise.withResolvers()
        await wake.promise
      }
      if (stop.aborted) return undefined
      if (lost) throw lost
      const due = {
        reload: reload || namedCount() > maxNamedRows,
        poll,
        named: new Map([...named].map(([channel, ids]) => [channel, [...ids]])),
      }
      reload = poll = false
      for (const ids of named.values()) ids.clear()
      return due
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

/** Kysely over a connection that is opened and closed elsewhere. */
function overOneClient(client: pg.Client, answered: () => void): Db {
  const query = async (text: string, values: readonly unknown[]) => {
    const result = await sendStatement(client, namesOfProcess, text, values)
    answered()
    return result
  }
  const connection = { query, release: () => undefined } as unknown as PostgresPoolClient
  const pool = { connect: () => Promise.resolve(connection), end: () => Promise.resolve(), options: {} }
  return new Kysely<DB>({ dialect: new PostgresDialect({ pool }) })
}
