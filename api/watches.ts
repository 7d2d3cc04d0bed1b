import { EventEmitter, once } from 'node:events'

/** One follower's part in the watch of a thing. Disposing it leaves the watch, which ends with its last follower. */
export interface Watch<T> extends Disposable {
  /** What the last look has found: the same object until something changes. */
  readonly latest: T
  /** Resolves after the next look, or after the next one that has found a change; at once when the signal is aborted. */
  next(event: 'look' | 'change', signal: AbortSignal): Promise<void>
}

export interface WatchOptions<T> {
  readonly everyMs: number
  /** Returns `latest` itself when nothing has changed. `count` is how often this thing was looked at, beginning with 1. */
  readonly look: (id: string, latest: T, count: number) => Promise<T>
  /** Learns of a look that failed; the next one is made in time. */
  readonly onFailure: (id: string, error: unknown) => void
}

export interface Watches<T> {
  /** @param first what is there now, for the first follower; others begin with what the last look has found */
  join(id: string, first: () => T | Promise<T>): Promise<Watch<T>>
}

/** Watches things for any number of followers: all those of one thing share one look at it. */
export function createWatches<T>(options: WatchOptions<T>): Watches<T> {
  const shared = new Map<string, SharedWatch<T>>()

  function begin(id: string, first: T): SharedWatch<T> {
    // two followers may read the first value at the same time
    const watch = shared.get(id) ?? new SharedWatch(id, first, options)
    shared.set(id, watch)
    return watch
  }

  return {
    async join(id, first) {
      const watch = shared.get(id) ?? begin(id, await first())
      watch.followers += 1
      return {
        get latest() {
          return watch.latest
        },
        next: (event, signal) => watch.next(event, signal),
        [Symbol.dispose]() {
          watch.followers -= 1
          if (watch.followers > 0) return
          watch.stop()
          shared.delete(id)
        },
      }
    },
  }
}

class SharedWatch<T> {
  latest: T
  followers = 0
  #looks = 0
  #stopped = false
  #timer: NodeJS.Timeout
  readonly #id: string
  readonly #options: WatchOptions<T>
  readonly #events = new EventEmitter().setMaxListeners(0)

  constructor(id: string, first: T, options: WatchOptions<T>) {
    this.#id = id
    this.latest = first
    this.#options = options
    this.#timer = this.#schedule()
  }

  async next(event: 'look' | 'change', signal: AbortSignal): Promise<void> {
    await once(this.#events, event, { signal }).catch((error: unknown) => {
      if (!signal.aborted) throw error
    })
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
  }

  #schedule(): NodeJS.Timeout {
    return setTimeout(() => void this.#look(), this.#options.everyMs)
  }

  async #look(): Promise<void> {
    const before = this.latest
    try {
      this.#looks += 1
      this.latest = await this.#options.look(this.#id, before, this.#looks)
    } catch (error) {
      this.#options.onFailure(this.#id, error)
    }
    if (this.#stopped) return
    if (this.latest !== before) this.#events.emit('change')
    this.#events.emit('look')
    this.#timer = this.#schedule()
  }
}
