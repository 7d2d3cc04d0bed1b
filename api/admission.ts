import { type AppError, tooManyRequests, unavailable } from '../core/errors.ts'
import { admissionLimits } from '../core/limits.ts'
import type { Db, ShareDatabase } from '../infra/db/database.ts'
import { createFairQueue } from '../infra/fair-queue.ts'
import { type Budget, createBudget } from './budget.ts'

/** Whose share of this process a request takes: a project's, or, without a key, that of the site it is for and of the address it is from. */
export interface Payer {
  readonly kind: 'project' | 'site' | 'address'
  readonly id: string
}

/** Whose share of the connections a query takes. */
export interface ConnectionPayer {
  readonly kind: 'project' | 'key' | 'address'
  readonly id: string
}

type Resource = 'requests' | 'memory' | 'spool'

/** A request under way, and the bytes of its body that are here. All of it is given back when it is disposed. */
export interface Admitted extends Disposable {
  /** @throws AppError `too_many_requests` when a payer has its share, `unavailable` when the server has too little left */
  hold(resource: 'memory' | 'spool', bytes: number): void
  /** Waits until the next chunk of a large body may be worked on: a few of all bodies in each turn of the event loop, fairly between payers. */
  turn(): Promise<void>
}

export interface AdmissionFigures {
  readonly held: Readonly<Record<Resource, number>>
  readonly largeRequestsWaiting: number
  readonly connectionsHeld: number
  readonly connectionsWaiting: number
  /** Refusals so far by their reason, such as `memory_payer`. */
  readonly refused: ReadonlyMap<string, number>
}

/** What one process of the api takes on at once, shared fairly between payers; limits across processes are in PostgreSQL. */
export interface Admission {
  /** @throws AppError `too_many_requests`, `unavailable` */
  enter(...payers: readonly Payer[]): Admitted
  /**
   * Runs the work when no other large request of the payer runs, and at most one of others; payers take turns.
   * @throws AppError `too_many_requests`, `unavailable` when too many wait
   */
  runLarge<T>(payer: string, work: () => Promise<T>): Promise<T>
  /** The database through the payer's share of the connections. A query may be refused with `too_many_requests` or `unavailable`. */
  databaseOf(payer: ConnectionPayer): Db
  figures(): AdmissionFigures
}

const nameOf = ({ kind, id }: Payer | ConnectionPayer) => `${kind}:${id}`

const retryAfterSeconds = { requests: 1, memory: 5, spool: 10, large_requests: 10, connections: 2 } as const

/** What a payer has too much of, and what the server has too much of. */
const reasons: Record<keyof typeof retryAfterSeconds, string> = {
  requests: 'requests are under way',
  memory: 'bytes of bodies are being received',
  spool: 'bytes of large bodies are being received',
  large_requests: 'large requests are waiting',
  connections: 'requests are waiting for the database',
}

const owners: Record<(Payer | ConnectionPayer)['kind'], string> = {
  project: 'for this project',
  site: 'for this site',
  key: 'with this key',
  address: 'from this address',
}

/** @param name as {@link nameOf} writes it */
const ownerOf = (name: string) => owners[name.slice(0, name.indexOf(':')) as keyof typeof owners]

export function createAdmission(shareDatabase: ShareDatabase): Admission {
  const refused = new Map<string, number>()
  const budgets: Record<Resource, Budget> = {
    requests: createBudget(admissionLimits.requests.server),
    memory: createBudget(admissionLimits.memory.server),
    spool: createBudget(admissionLimits.spool.server),
  }

  function refusal(what: keyof typeof reasons, why: 'payer' | 'server', owner = 'for this project'): AppError {
    const reason = `${what}_${why}`
    refused.set(reason, (refused.get(reason) ?? 0) + 1)
    const seconds = retryAfterSeconds[what]
    return why === 'payer'
      ? tooManyRequests(`too many ${reasons[what]} ${owner}; wait until some of them have ended`, seconds)
      : unavailable(`the server is busy: too many ${reasons[what]}; try again in ${seconds} seconds`, seconds)
  }

  const largeRequests = createFairQueue({
    places: 2,
    placesPerPayer: 1,
    waiting: admissionLimits.largeRequests.serverWaiting,
    waitingPerPayer: admissionLimits.largeRequests.waiting,
    overflow: (why) => refusal('large_requests', why),
  })
  const chunks = createFairQueue({
    places: admissionLimits.chunksPerTurn,
    placesPerPayer: admissionLimits.chunksPerTurn,
    // each is one of the requests under way
    waiting: Number.POSITIVE_INFINITY,
    waitingPerPayer: Number.POSITIVE_INFINITY,
    overflow: (why) => refusal('requests', why),
  })
  const connections = createFairQueue({
    places: admissionLimits.connections.server,
    placesPerPayer: admissionLimits.connections.held,
    waiting: admissionLimits.connections.serverWaiting,
    waitingPerPayer: admissionLimits.connections.waiting,
    patienceMs: admissionLimits.connectionPatienceMs,
    overflow: (why, payer) => refusal('connections', why, ownerOf(payer)),
    late: () => refusal('connections', 'server'),
  })

  return {
    enter(...payers) {
      const held: Record<Resource, number> = { requests: 0, memory: 0, spool: 0 }
      function give(resource: Resource, amount: number, those: readonly Payer[]): void {
        for (const payer of those) budgets[resource].give(nameOf(payer), amount)
      }
      function hold(resource: Resource, amount: number): void {
        for (const [index, payer] of payers.entries()) {
          const why = budgets[resource].take(nameOf(payer), admissionLimits[resource][payer.kind], amount)
          if (!why) continue
          give(resource, amount, payers.slice(0, index))
          throw refusal(resource, why, owners[payer.kind])
        }
        held[resource] += amount
      }
      hold('requests', 1)
      return {
        hold,
        async turn() {
          const [payer] = payers
          const leave = await chunks.acquire(payer ? nameOf(payer) : '')
          setImmediate(leave)
        },
        [Symbol.dispose]() {
          for (const resource of ['requests', 'memory', 'spool'] as const) {
            give(resource, held[resource], payers)
            held[resource] = 0
          }
        },
      }
    },
    async runLarge(payer, work) {
      const leave = await largeRequests.acquire(payer)
      try {
        return await work()
      } finally {
        leave()
      }
    },
    databaseOf: (payer) => shareDatabase((signal) => connections.acquire(nameOf(payer), signal)),
    figures: () => ({
      held: { requests: budgets.requests.held, memory: budgets.memory.held, spool: budgets.spool.held },
      largeRequestsWaiting: largeRequests.waiting,
      connectionsHeld: connections.held,
      connectionsWaiting: connections.waiting,
      refused,
    }),
  }
}
