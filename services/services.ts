import type { BuildLogs } from '../infra/build-logs/build-logs.ts'
import type { Cas } from '../infra/cas/cas.ts'
import type { Config } from '../infra/config.ts'
import type { PreviewTokens } from '../infra/crypto/preview-tokens.ts'
import type { Keyring } from '../infra/crypto/seal.ts'
import type { Db } from '../infra/db/database.ts'
import type { Logger } from '../infra/log.ts'
import type { Freshness } from './feeds/freshness.ts'

/** The dependencies of the services, made once per process. */
export interface Services {
  readonly config: Config
  /** The pool, or one caller's share of its connections. */
  readonly db: Db
  readonly cas: Cas
  readonly buildLogs: BuildLogs
  readonly previewTokens: PreviewTokens
  readonly keyring: Keyring
  /** Sends the starts and signals of workflows that transactions wrote; `transact` wakes it. */
  readonly relay: { wake(): void }
  readonly freshness: Freshness
  readonly log: Logger
  /** PostgreSQL's time, which decides what is deleted and what expires: see `infra/db/clock.ts`. */
  readonly clock: () => Date
}
