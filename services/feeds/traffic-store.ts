import type { TrafficBatch } from '../../core/traffic.ts'
import { openKeyring } from '../../infra/crypto/seal.ts'
import { openDatabase } from '../../infra/db/database.ts'
import { applyBatches } from './traffic.ts'
import { knownSalts, rememberSalts } from './visitor-salts.ts'

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

/** Connects when it is used for the first time, and again after an idle time. @param secretKey PLINTH_SECRET_KEY */
export function openTrafficStore(databaseUrl: string, secretKey: Uint8Array): TrafficStore {
  const { db, ...database } = openDatabase(databaseUrl)
  const keyring = openKeyring(secretKey)
  return {
    apply: (streamId, first, batches) => applyBatches(db, streamId, first, batches),
    async agreeOnSalts(known, days) {
      await rememberSalts(db, keyring, known)
      return await knownSalts(db, keyring, days)
    },
    [Symbol.asyncDispose]: () => database[Symbol.asyncDispose](),
  }
}
