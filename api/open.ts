import { rm } from 'node:fs/promises'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import { openBuildLogs } from '../infra/build-logs/open.ts'
import { openCas } from '../infra/cas/open.ts'
import { type Config, required } from '../infra/config.ts'
import { createPermanentTokens } from '../infra/crypto/permanent-tokens.ts'
import { createPreviewTokens } from '../infra/crypto/preview-tokens.ts'
import { deriveRunnerToken } from '../infra/crypto/runner-token.ts'
import { openKeyring } from '../infra/crypto/seal.ts'
import { openDatabaseClock } from '../infra/db/clock.ts'
import { openDatabase } from '../infra/db/database.ts'
import { createLogoResizer } from '../infra/images/resize-logo.ts'
import { createLogger } from '../infra/log.ts'
import { openMessengers } from '../infra/messengers/open.ts'
import { openFactsReader } from '../services/checks/facts-reader.ts'
import { createSiteChecks } from '../services/checks/find-recommendations.ts'
import { openDomainLookUp } from '../services/domains/look-up.ts'
import { createFreshness } from '../services/feeds/freshness.ts'
import { openDefaultBranchFinder } from '../services/git/default-branch.ts'
import { openWorkflowClient, startRelay } from '../workflows/client.ts'
import { createAdmission } from './admission.ts'
import { createListener } from './app.ts'
import { makeDocuments } from './documents.ts'
import { createLiveFollowers } from './follow-live-stats.ts'
import { createLogFollowers } from './follow-logs.ts'
import { createToolServer } from './mcp.ts'
import { operations } from './operations/index.ts'

/** Callers get a 503 after this time, instead of waiting for a server that hangs. */
const queryTimeoutMs = 4000
/** Less than the query timeout, so that the server itself ends the wait and the connection is free again. */
const lockTimeoutMs = 3000

export interface OpenedApi extends AsyncDisposable {
  readonly listener: RequestListener
  /** Ends the streams that would go on for as long as their clients listen. */
  drain(): void
}

/** Opens everything that answers requests, without the HTTP server. */
export async function openApi(config: Config): Promise<OpenedApi> {
  const log = createLogger('api', config.logLevel)
  const operatorToken = required(config.operatorToken, 'PLINTH_OPERATOR_TOKEN')
  const secretKey = required(config.secretKey, 'PLINTH_SECRET_KEY')
  const address = required(config.temporal.address, 'PLINTH_TEMPORAL_ADDRESS')
  await using stack = new AsyncDisposableStack()
  const databaseUrl = required(config.database.url, 'PLINTH_DATABASE_URL')
  const { db, shareDatabase } = stack.use(openDatabase(databaseUrl, { queryTimeoutMs, lockTimeoutMs }))
  const workflows = stack.use(openWorkflowClient({ address, namespace: config.temporal.namespace }))
  const relay = stack.use(startRelay(db, workflows, log))
  const spoolDir = join(config.dataDir, 'spool')
  // removes files of a process that was killed; none of them was acknowledged
  await rm(spoolDir, { recursive: true, force: true })
  const cas = await openCas(config.storage.url)
  const buildLogs = openBuildLogs(config.storage.url)
  const draining = new AbortController()
  const { clock, skewMs } = stack.use(await openDatabaseClock(db, log))
  const freshness = createFreshness({ db, log, clock })
  const listener = createListener({
    config,
    db,
    cas,
    buildLogs,
    logFollowers: createLogFollowers({ db, buildLogs, freshness, log }),
    liveFollowers: createLiveFollowers({ db, log, clock }),
    previewTokens: createPreviewTokens(secretKey),
    permanentTokens: createPermanentTokens(secretKey),
    resizeLogo: createLogoResizer({ ...config.build, dataDir: config.dataDir, log }),
    keyring: openKeyring(secretKey),
    siteChecks: createSiteChecks(cas, stack.use(openFactsReader())),
    lookUpDomain: openDomainLookUp(config),
    findDefaultBranch: openDefaultBranchFinder(config, log),
    messengers: openMessengers(config),
    log,
    clock,
    clockSkewMs: skewMs,
    relay,
    freshness,
    workflows,
    admission: createAdmission(shareDatabase),
    draining: draining.signal,
    spoolDir,
    documents: makeDocuments(config.urls.base),
    // loaded with the api, at 10 MiB: loading the library with the first request would hold up everybody else's for a quarter of a second
    tools: createToolServer(operations),
    operatorToken,
    runnerToken: config.runnerToken ?? deriveRunnerToken(secretKey),
  })
  log.info({ socket: config.sockets.api }, 'api started')
  const opened = stack.move()
  return { listener, drain: () => draining.abort(), [Symbol.asyncDispose]: () => opened.disposeAsync() }
}
