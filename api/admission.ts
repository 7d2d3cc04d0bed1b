import { type AppError, tooManyRequests, unavailable } from '../core/errors.ts'
import { admissionLimits } from '../core/limits.ts'
import type { Db, ShareDatabase } from '../infra/db/database.ts'
import { FairQueue } from '../infra/fair-queue.ts'
import { type Budget, createBudget } from '../infra/limits.ts'

/** Whose share of this process a request takes: its project's, or, without a key, that of the site it is for and of the client's address. */
export interface Payer {
  readonly kind: 'project' | 'site' | 'address'
  readonly id: string
}

/** Whose share of the connections a query takes. */
export interface ConnectionPayer {
  readonly kind: 'project' | 'key' | 'address'
  readonly id: string
}

const resources = ['requests', 'memory', 'spool', 'answers'] as const
type Resource = (typeof resources)[number]
type Budgets = Readonly<Record<Resource, Budget>>

/** A request under way, with the bytes of its body that have arrived and of its answer. Disposing it releases all of its shares. */
export interface Admitted extends Disposable {
  /** @throws AppError `too_many_requests` when a payer has reached its limit, `unavailable` when the server has too little left */
  hold(resource: 'memory' | 'spool' | 'answers', bytes: number): void
  /**
   * Waits until the next chunk of a large body or answer may be processed: each turn of the event loop has a few slots, shared fairly between
   * payers.
   */
  waitForChunkSlot(): Promise<void>
  /** Reads a batch of a large answer when no other one of the payer is being read, and at most one of others; payers alternate. */
  readBatch<T>(read: () => Promise<T>): Promise<T>
}

export interface AdmissionFigures {
  readonly held: Readonly<Record<Resource, number>>
  readonly largeRequestsWaiting: number
  readonly connectionsHeld: number
  readonly connectionsWaiting: number
  /** Refusals so far by their reason, such as `memory_payer`. */
  readonly refused: ReadonlyMap<string, number>
}

/** Limits what one api process handles at once, shared fairly between payers. Limits across processes are in PostgreSQL. */
export interface Admission {
  /** @throws AppError `too_many_requests`, `unavailable` */
  enter(...payers: readonly Payer[]): Admitted
  /**
   * Runs the work when no other large request of the payer is running, and at most one of others; payers alternate.
   * @throws AppError `too_many_requests`, `unavailable` when too many wait
   */
  runLarge<T>(payer: string, work: () => Promise<T>): Promise<T>
  /** The database, limited to the payer's share of the connections. A query may be refused with `too_many_requests` or `unavailable`. */
  databaseOf(payer: ConnectionPayer): Db
  figures(): AdmissionFigures
}

const nameOf = ({ kind, id }: Payer | ConnectionPayer) => `${kind}:${id}`

const retryAfterSeconds = { requests: 1, memory: 5, spool: 10, answers: 5, large_requests: 10, connections: 2 } as const

/** What has reached its limit, of a payer or of the server. */
const reasons: Record<keyof typeof retryAfterSeconds, string> = {
  requests: 'requests are under way',
  memory: 'bytes of bodies are being received',
  spool: 'bytes of large bodies are being received',
  answers: 'large answers are being sent',
  large_requests: 'large requests are waiting',
  connections: 'requests are waiting for the database',
}

const owners: Record<(Payer | ConnectionPayer)['kind'], string> = {
  project: 'for this project',
  site: 'for this site',
  key: 'with this key',
  address: 'from this address',
}

/** @param name a name made by {@link nameOf} */
const ownerOf = (name: string) => owners[name.slice(0, name.indexOf(':')) as keyof typeof owners]

type Refuse = (what: keyof typeof reasons, why: 'payer' | 'server', owner?: string) => AppError

export function createAdmission(shareDatabase: ShareDatabase): Admission {
  const { refuse, counts } = createRefusals()
  const budgets: Budgets = {
    requests: createBudget(admissionLimits.requests.server),
    memory: createBudget(admissionLimits.memory.server),
    spool: createBudget(admissionLimits.spool.server),
    answers: createBudget(admissionLimits.answers.server),
  }
  const { largeRequests, connections, ...turns } = createQueues(refuse)

  return {
    enter: (...payers) => new AdmittedRequest(payers, budgets, turns, refuse),
    runLarge: (payer, work) => largeRequests.run(payer, work),
    databaseOf: (payer) => shareDatabase((signal) => connections.acquire(nameOf(payer), signal)),
    figures: () => ({
      held: {
        requests: budgets.requests.held,
        memory: budgets.memory.held,
        spool: budgets.spool.held,
        answers: budgets.answers.held,
      },
      largeRequestsWaiting: largeRequests.waiting,
      connectionsHeld: connections.held,
      connectionsWaiting: connections.waiting,
      refused: counts,
    }),
  }
}

/** Makes refusals, and counts them by their reason. */
function createRefusals(): { readonly refuse: Refuse; readonly counts: ReadonlyMap<string, number> } {
  const counts = new Map<string, number>()
  return {
    counts,
    refuse(what, why, owner = 'for this project') {
      const reason = `${what}_${why}`
      counts.set(reason, (counts.get(reason) ?? 0) + 1)
      const seconds = retryAfterSeconds[what]
      return why === 'payer'
        ? tooManyRequests(`too many ${reasons[what]} ${owner}; wait until some of them have ended`, seconds, 'rate_requests')
        : unavailable(`the server is busy: too many ${reasons[what]}; try again in ${seconds} seconds`, seconds, 'busy')
    },
  }
}

function createQueues(refuse: Refuse) {
  const { largeRequests, connections, chunksPerTurn, batches, connectionPatienceMs } = admissionLimits
  return {
    largeRequests: new FairQueue({
      slots: 2,
      slotsPerPayer: 1,
      waitingRoom: {
        total: largeRequests.serverWaiting,
        perPayer: largeRequests.waiting,
        overflow: (why) => refuse('large_requests', why),
      },
    }),
    // these need no limit: each waiter is one of the requests under way, whose number is limited
    chunks: new FairQueue({ slots: chunksPerTurn }),
    batches: new FairQueue({ slots: batches.server, slotsPerPayer: batches.project }),
    connections: new FairQueue({
      slots: connections.server,
      slotsPerPayer: connections.held,
      waitingRoom: {
        total: connections.serverWaiting,
        perPayer: connections.waiting,
        overflow: (why, payer) => refuse('connections', why, ownerOf(payer)),
      },
      patience: { ms: connectionPatienceMs, late: () => refuse('connections', 'server') },
    }),
  }
}

type Turns = Readonly<Record<'chunks' | 'batches', FairQueue>>

class AdmittedRequest implements Admitted {
  readonly #payers: readonly Payer[]
  readonly #budgets: Budgets
  readonly #turns: Turns
  readonly #refuse: Refuse
  readonly #held: Record<Resource, number> = { requests: 0, memory: 0, spool: 0, answers: 0 }

  constructor(payers: readonly Payer[], budgets: Budgets, turns: Turns, refuse: Refuse) {
    this.#payers = payers
    this.#budgets = budgets
    this.#turns = turns
    this.#refuse = refuse
    this.hold('requests', 1)
  }

  hold(resource: Resource, amount: number): void {
    for (const [index, payer] of this.#payers.entries()) {
      const why = this.#budgets[resource].take(nameOf(payer), admissionLimits[resource][payer.kind], amount)
      if (!why) continue
      this.#give(resource, amount, this.#payers.slice(0, index))
      throw this.#refuse(resource, why, owners[payer.kind])
    }
    this.#held[resource] += amount
  }

  async waitForChunkSlot(): Promise<void> {
    const release = await this.#turns.chunks.acquire(this.#firstPayer)
    setImmediate(release)
  }

  readBatch<T>(read: () => Promise<T>): Promise<T> {
    return this.#turns.batches.run(this.#firstPayer, read)
  }

  get #firstPayer(): string {
    const [payer] = this.#payers
    return payer ? nameOf(payer) : ''
  }

  [Symbol.dispose](): void {
    for (const resource of resources) {
      this.#give(resource, this.#held[resource], this.#payers)
      this.#held[resource] = 0
    }
  }

  #give(resource: Resource, amount: number, payers: readonly Payer[]): void {
    for (const payer of payers) this.#budgets[resource].give(nameOf(payer), amount)
  }
}
