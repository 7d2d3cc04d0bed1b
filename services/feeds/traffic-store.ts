import { setTimeout as pause } from 'node:timers/promises'
import type { TrafficBatch } from '../../core/traffic.ts'
import { openKeyring } from '../../infra/crypto/seal.ts'
import { openDatabase } from '../../infra/db/database.ts'
import { applyBatches } from './traffic.ts'
import { agreedSalts, rememberSalts } from './visitor-salts.ts'

/** What an edge writes to the tables of statistics. */
export interface TrafficStore extends AsyncDisposable {
  /**
   * Adds segments numbered from `first` on. Those of the stream that were added before are skipped.
   * @throws RangeError when a segment can never be added
   */
  apply(streamId: string, first: number, batches: readonly TrafficBatch[]): Promise<void>
  /**
   * Brings the salts of days, by their dates in Moscow.
   * @param known what the edge uses, for the days that have none: PostgreSQL may have lost them in a crash
   */
  agreeOnSalts(known: ReadonlyMap<string, Buffer>, days: readonly string[]): Promise<ReadonlyMap<string, Buffer>>
}

/** An edge that knows the salts tries to store its segments at least this often. */
const othersFirstMs = 3000

/** Connects when it is used for the first time, and again after an idle time. @param secretKey PLINTH_SECRET_KEY */
export function openTrafficStore(databaseUrl: string, secretKey: Uint8Array): TrafficStore {
  const { db, ...database } = openDatabase(databaseUrl)
  const keyring = openKeyring(secretKey)
  let agreed: ReadonlyMap<string, Buffer> = new Map()
  let hasFailed = false
  let isUncertain = false
  return {
    async apply(streamId, first, batches) {
      // a crash of PostgreSQL has emptied the table of salts, and an edge that starts now would make others
      if (hasFailed) await rememberSalts(db, keyring, agreed)
      hasFailed = true
      await applyBatches(db, streamId, first, batches)
      hasFailed = false
    },
    async agreeOnSalts(known, days) {
      // PostgreSQL may be back from a crash: an edge that knows the salts should write them before this one makes others
      if (isUncertain) await pause(othersFirstMs)
      isUncertain = agreed.size === 0
      agreed = await agreedSalts(db, keyring, known, days)
      isUncertain = false
      return agreed
    },
    [Symbol.asyncDispose]: () => database[Symbol.asyncDispose](),
  }
}
