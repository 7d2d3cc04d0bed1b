import { once } from 'node:events'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { sql } from 'kysely'
import { expect, inject } from 'vitest'
import { createAdmission } from '../api/admission.ts'
import { createListener, type ListenerDeps } from '../api/app.ts'
import { makeDocuments } from '../api/documents.ts'
import { createLiveFollowers, type LiveTiming } from '../api/follow-live-stats.ts'
import { createLogFollowers } from '../api/follow-logs.ts'
import { createToolServer } from '../api/mcp.ts'
import { operations } from '../api/operations/index.ts'
import type { PlanName, Plans } from '../core/plans.ts'
import type { Scope } from '../core/scopes.ts'
import { openEdge } from '../edge/edge.ts'
import { platformHosts } from '../infra/acme/platform-names.ts'
import { openBuildLogs } from '../infra/build-logs/open.ts'
import { certificatePaths } from '../infra/caddy/certificate-getter.ts'
import { openCas } from '../infra/cas/open.ts'
import { loadConfig } from '../infra/config.ts'
import { createPermanentTokens } from '../infra/crypto/permanent-tokens.ts'
import { createPreviewTokens } from '../infra/crypto/preview-tokens.ts'
import { deriveRunnerToken } from '../infra/crypto/runner-token.ts'
import { openKeyring } from '../infra/crypto/seal.ts'
import { type OpenedDatabase, openDatabase } from '../infra/db/database.ts'
import { createLogoResizer } from '../infra/images/resize-logo.ts'
import { freePort } from '../infra/local/ports.ts'
import { createLogger, type Logger } from '../infra/log.ts'
import { type Messengers, openMessengers } from '../infra/messengers/open.ts'
import type { TemporalAddress } from '../infra/temporal/worker.ts'
import { openRunner } from '../runner/runner.ts'
import { createVariablesReader } from '../runner/variables.ts'
import { openFactsReader } from '../services/checks/facts-reader.ts'
import { createSiteChecks } from '../services/checks/find-recommendations.ts'
import { openDomainLookUp } from '../services/domains/look-up.ts'
import { createFreshness } from '../services/feeds/freshness.ts'
import { openDefaultBranchFinder } from '../services/git/default-branch.ts'
import type { Services } from '../services/services.ts'
import { openWorkflowClient, startRelay, type WorkflowClient } from '../workflows/client.ts'
import { openQueues } from '../workflows/open.ts'
import { workerQueues } from '../workflows/worker.ts'
import { expectDocumented } from './contract.ts'
import { createDatabase, type TestDatabase } from './database.ts'
import { type Max, startMax } from './doubles/max.ts'
import { startTelegram, type Telegram } from './doubles/telegram.ts'
import { quickFolder } from './quick-folder.ts'
import { expectNoCallsInTransactions, watchStorage } from './storage-calls.ts'
import { type KillableTemporal, registerNamespace, startKillableTemporal } from './temporal.ts'

export const operatorToken = 'operator-token-of-the-tests'
export const secretKey = Buffer.alloc(32, 'key')

export interface Answer<T = any> {
  readonly status: number
  readonly headers: Headers
  readonly body: T
}

export interface CallOptions {
  /** A key, the operator token, or nothing. */
  readonly key?: string | undefined
  readonly json?: unknown
  readonly bytes?: Uint8Array | undefined
  readonly type?: string
  readonly headers?: Record<string, string>
}

export interface TestProject {
  readonly id: string
  /** A key of full scope. */
  readonly key: string
}

export interface Visit {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** The whole stack in this process, on a database and a namespace of Temporal of its own. */
export interface World extends Services, AsyncDisposable {
  /** Where the api listens. */
  readonly base: string
  readonly dir: string
  readonly database: TestDatabase
  readonly temporal: TemporalAddress
  readonly workflows: WorkflowClient
  readonly messengers: Messengers
  readonly telegram: Telegram
  readonly max: Max
  /** Ends the world's own Temporal server as a crash would; deploys are accepted all the same. */
  killTemporal: KillableTemporal['kill']
  /** Starts it again, with or without what it knew. */
  startTemporal: KillableTemporal['start']
  /** `call('POST /api/v1/sites', { key, json })` */
  call(endpoint: string, options?: CallOptions): Promise<Answer>
  /** `tools/call`; answers the result, or throws with the HTTP status. */
  tool(
    name: string,
    args: object,
    key: string,
  ): Promise<{ isError?: boolean; structuredContent: any; content: { text: string }[] }>
  /** What a visitor of the site gets from the edge. */
  visit(subdomain: string, path?: string, headers?: Record<string, string>): Promise<Visit>
  /** What the edge answers for an address of a site or a preview. */
  open(url: string, headers?: Record<string, string>): Promise<Visit>
  project(plan?: PlanName): Promise<TestProject>
  key(project: TestProject, scope: Scope): Promise<string>
  /** Polls until the deploy has ended. */
  ended(deployId: string, key: string): Promise<any>
  /** Chain and key that a handshake for the host would get; undefined when it would fail. */
  certificateOf(host: string): Promise<string | undefined>
  /** Another api as far as limits go: connections and memory of its own, the same database. Answers where it listens. */
  openSecondApi(): Promise<string>
  /** Tells the api that it is about to stop. */
  drain(): void
  /** Moves the clock that the api and the activities see. */
  advance(ms: number): void
}

export interface WorldOptions {
  /** Instead of an empty one; the world disposes of it. */
  readonly database?: TestDatabase
  /** Settings besides those of a test. */
  readonly env?: Readonly<Record<string, string>>
  readonly plans?: Plans
  /** Where the whole stack writes its log; by default nowhere, or as TEST_LOG_LEVEL says. */
  readonly log?: Logger
  /** True: a Temporal server that no other world uses, which takes half a second of a processor to start. */
  readonly ownTemporal?: boolean
  /** False: deploys stay queued. */
  readonly worker?: boolean
  /** False: no repository is fetched. */
  readonly fetcher?: boolean
  /** True: archives are built, in the real sandbox. */
  readonly runner?: boolean
  /** True: sites are served. */
  readonly edge?: boolean
  /** How long a certificate authority may take for one order. */
  readonly orderPatienceMs?: number
  /** Of live statistics, where a test cannot wait. */
  readonly liveTiming?: LiveTiming
  /** Where the edge listens; any free port when absent. */
  readonly edgePort?: number
  /** How long unknown hosts of logins wait at most until they are looked up together; 10 ms when absent. */
  readonly hostLookUpGapMs?: number
}

const notOwned = () => Promise.reject(new Error('this world has no Temporal server of its own'))

type Described = Pick<ListenerDeps, 'documents' | 'tools'>

/** What the api says about itself at an address. Worlds share it, because making it takes a tenth of a second. */
const described = new Map<string, Described>()
function describedAt(baseUrl: string): Described {
  const made = described.get(baseUrl) ?? { documents: makeDocuments(baseUrl), tools: createToolServer(operations) }
  described.set(baseUrl, made)
  return made
}

/** Whatever a test has done: `projects.blob_bytes` is the sum of the sizes of the project's blobs. */
async function expectCountedBlobs(db: OpenedDatabase['db']): Promise<void> {
  const sum = sql<number>`(select coalesce(sum(size), 0) from blobs where project_id = projects.id)::bigint`
  const projects = await db
    .selectFrom('projects')
    .select(['name', 'blob_bytes', sum.as('sum')])
    .execute()
  expect(projects.filter((project) => project.blob_bytes !== project.sum)).toEqual([])
}

type DatabaseAccess = Pick<OpenedDatabase, 'db' | 'shareDatabase'>

export async function world(options: WorldOptions = {}): Promise<World> {
  await using stack = new AsyncDisposableStack()
  const dir = await mkdtemp(join(options.runner ? tmpdir() : await quickFolder(), 'plinth-world-'))
  // the users of builds have to pass through
  await chmod(dir, 0o711)
  stack.defer(() => rm(dir, { recursive: true, force: true }))
  const database = stack.use(options.database ?? (await createDatabase()))
  const ownTemporal = options.ownTemporal ? stack.use(await startKillableTemporal(dir)) : undefined
  const temporal = ownTemporal?.temporal ?? (await registerNamespace())
  const { bwrap, toolchain, registry } = inject('buildTools')
  const edgePort = options.edgePort ?? (await freePort())
  const [telegram, max] = [stack.use(await startTelegram()), stack.use(await startMax())]
  const loaded = loadConfig({
    PLINTH_DATA_DIR: dir,
    PLINTH_OPERATOR_TOKEN: operatorToken,
    PLINTH_SECRET_KEY: secretKey.toString('base64'),
    PLINTH_PREVIEW_URL: `http://preview.localhost:${edgePort}`,
    PLINTH_BUILD_BWRAP: bwrap,
    PLINTH_BUILD_TOOLCHAIN: toolchain,
    // nobody answers there: no test asks the name servers of this machine
    PLINTH_DNS_SERVERS: '127.0.0.1:9',
    PLINTH_TELEGRAM_BOT_TOKEN: telegram.token,
    PLINTH_TELEGRAM_API: telegram.api,
    PLINTH_MAX_BOT_TOKEN: max.token,
    PLINTH_MAX_API: max.api,
    ...registry,
    ...options.env,
  })
  const config = options.plans ? { ...loaded, plans: options.plans } : loaded
  const log = options.log ?? createLogger('test', process.env['TEST_LOG_LEVEL'] ?? 'silent')
  const { db, shareDatabase } = stack.use(openDatabase(database.url))
  stack.defer(() => expectCountedBlobs(db))
  stack.defer(expectNoCallsInTransactions)
  const stored = watchStorage(await openCas(config.storage.url))
  const buildLogs = openBuildLogs(config.storage.url)
  let shiftMs = 0
  const clock = () => new Date(Date.now() + shiftMs)
  // the files of the storage are as old as the clock says
  const cas = { ...stored, now: async () => new Date((await stored.now()).getTime() + shiftMs) }
  const previewTokens = createPreviewTokens(secretKey)
  const keyring = openKeyring(secretKey)
  const runnerToken = deriveRunnerToken(secretKey)
  const workflows = stack.use(openWorkflowClient(temporal))
  const relay = stack.use(startRelay(db, workflows, log))
  const freshness = createFreshness({ db, log, clock })
  const services: Services = { config, db, cas, buildLogs, previewTokens, keyring, relay, freshness, log, clock }
  const lookUpDomain = openDomainLookUp(config)
  const factsReader = stack.use(openFactsReader())
  if (options.worker !== false) {
    const bundle = Promise.resolve({ code: inject('workflowBundle') })
    const queues = options.fetcher === false ? workerQueues.filter((queue) => queue !== 'fetch') : workerQueues
    stack.use(await openQueues({ services, temporal, bundle, queues, orderPatienceMs: options.orderPatienceMs }))
  }
  const { platformDomain, base: baseUrl, preview: previewUrl } = config.urls
  let certificatesPort = 0
  if (options.edge) {
    const snapshotDir = join(dir, 'edge')
    const listen = { port: edgePort }
    const hosts = { platformDomain, baseUrl, previewUrl }
    const certificates = { secretKey, listen: { port: 0 }, isPlatformHost: platformHosts(config), isLocalAuthority: false }
    const edge = stack.use(await openEdge({ ...hosts, databaseUrl: database.url, cas, snapshotDir, listen, certificates, log }))
    certificatesPort = edge.certificatesPort ?? 0
  }
  const messengers = openMessengers(config)
  const draining = new AbortController()
  const openApi = async (resources: AsyncDisposableStack, { db, shareDatabase }: DatabaseAccess): Promise<string> => {
    const listener = createListener({
      ...services,
      db,
      clockSkewMs: () => 0,
      permanentTokens: createPermanentTokens(secretKey),
      resizeLogo: createLogoResizer({ ...config.build, dataDir: dir, log }),
      logFollowers: createLogFollowers({ db, buildLogs, freshness, log }),
      liveFollowers: createLiveFollowers({ db, log, clock }, options.liveTiming),
      siteChecks: createSiteChecks(cas, factsReader),
      lookUpDomain,
      findDefaultBranch: openDefaultBranchFinder(config, log),
      messengers,
      draining: draining.signal,
      workflows,
      admission: createAdmission(shareDatabase),
      spoolDir: join(dir, 'spool'),
      ...describedAt(config.urls.base),
      operatorToken,
      runnerToken,
      // each test has sites of its own, and would wait a second for the first login
      hostLookUpGapMs: options.hostLookUpGapMs ?? 10,
    })
    // as openServer has it: a shorter one closes connections that a busy test is about to use
    const http = createServer({ keepAliveTimeout: 150_000 }, listener)
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
    resources.defer(() => {
      draining.abort()
      http.closeAllConnections()
      http.close()
    })
    return `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  }
  const base = await openApi(stack, { db, shareDatabase })
  if (options.runner) {
    const readVariables = createVariablesReader(config, { url: base, token: runnerToken })
    stack.use(await openRunner({ config, cas, buildLogs, temporal, readVariables, shutdownGraceMs: 0, log }))
  }

  async function call(endpoint: string, { key, json, bytes, type, headers }: CallOptions = {}): Promise<Answer> {
    const [method = '', path = ''] = endpoint.split(' ')
    const contentType = type ?? (json === undefined ? undefined : 'application/json')
    const response = await fetch(base + path, {
      method,
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(contentType === undefined ? {} : { 'content-type': contentType }),
        ...headers,
      },
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
      ...(bytes === undefined ? {} : { body: bytes as Uint8Array<ArrayBuffer> }),
    })
    const body = await response.text()
    const isJson = response.headers.get('content-type')?.startsWith('application/json')
    const answer = { status: response.status, headers: response.headers, body: isJson ? JSON.parse(body) : body }
    if (method !== 'HEAD') expectDocumented(method, path, answer)
    return answer
  }

  async function expectOk(endpoint: string, callOptions: CallOptions): Promise<any> {
    const { status, body } = await call(endpoint, callOptions)
    if (status !== 200) throw new Error(`${endpoint}: ${status} ${JSON.stringify(body)}`)
    return body
  }

  const made: Omit<World, keyof AsyncDisposable> = {
    ...services,
    base,
    dir,
    database,
    temporal,
    workflows,
    messengers,
    telegram,
    max,
    call,
    killTemporal: ownTemporal?.kill ?? notOwned,
    startTemporal: ownTemporal?.start ?? notOwned,
    visit: (subdomain, path = '/', headers) => made.open(`http://${subdomain}.${platformDomain}${path}`, headers),
    async open(url, headers = {}) {
      const { host, pathname, search } = new URL(url)
      const path = pathname + search
      const outgoing = request({ host: '127.0.0.1', port: edgePort, path, headers: { host, ...headers } }).end()
      const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
      return { status: response.statusCode ?? 0, headers: response.headers, body: await text(response) }
    },
    async tool(name, args, key) {
      const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } }
      const body = await expectOk('POST /mcp', { key, json: message })
      if (body.error) throw new Error(`${name}: ${JSON.stringify(body.error)}`)
      return body.result
    },
    async project(plan = 'pro') {
      const json = { name: `project on ${plan}`, owner_email: 'owner@example.com', plan }
      const project = await expectOk('POST /operator/v1/projects', { key: operatorToken, json })
      return { id: project.id, key: await made.key(project, 'full') }
    },
    async key(project, scope) {
      const json = { name: scope, scope }
      return (await expectOk(`POST /operator/v1/projects/${project.id}/keys`, { key: operatorToken, json })).key
    },
    async ended(deployId, key) {
      // of a deploy that is gone, the call says so
      const isOver = (deploy?: { status: string; activate: boolean }) =>
        !deploy || (deploy.activate ? ['active', 'superseded', 'failed'] : ['ready', 'failed']).includes(deploy.status)
      // a query costs less than a call
      const state = db.selectFrom('deploys').select(['status', 'activate']).where('id', '=', deployId)
      while (!isOver(await state.executeTakeFirst())) await pause(20)
      return await expectOk(`GET /api/v1/deploys/${deployId}`, { key })
    },
    async certificateOf(host) {
      const { certificate } = certificatePaths(secretKey)
      const response = await fetch(`http://127.0.0.1:${certificatesPort}${certificate}?server_name=${host}`)
      return response.status === 200 ? await response.text() : undefined
    },
    openSecondApi: () => openApi(owned, owned.use(openDatabase(database.url))),
    drain: () => draining.abort(),
    advance(ms) {
      shiftMs += ms
    },
  }
  // an edge that has not read the routes yet answers 503 for every host
  while (options.edge && (await made.visit('nothing')).status === 503) await pause(10)
  const owned = stack.move()
  return { ...made, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}
