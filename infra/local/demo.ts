import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { formHtml } from '../../core/form-html.ts'
import type { Config } from '../config.ts'
import { request } from '../http.ts'
import { pause } from '../pause.ts'
import { type ApiAnswer, apiOnSocket, type CallApi } from './api-client.ts'
import { readSecret, writeSecret } from './secrets.ts'
import { waitUntil } from './wait.ts'

const projectName = 'Demo'
const subdomain = 'plinth-demo'
const siteDir = join(import.meta.dirname, 'demo-site')

interface DemoSite {
  readonly id: string
  readonly url: string
  readonly subdomain: string
  readonly form_endpoint: string
}

export interface Demo {
  readonly key: string
  readonly keyFile: string
  /** Undefined when the owner has deleted the site. */
  readonly site: { readonly id: string; readonly url: string } | undefined
}

/** How long a start waits for the demo site: a worker or a store that is killed is there again long before. */
const patienceMs = 120_000
const retryGapMs = 250

interface DemoOptions {
  readonly report: (line: string) => void
  /** Gives up. */
  readonly signal: AbortSignal
}

/**
 * Makes the demo project, its key and its site through the API, as an operator would. Whatever is there is kept, so a start that was
 * killed in between is completed by the next one; a site that was deleted later is not made again. While a part is away it is tried again.
 * The platform runs without it too, so a failure is only reported.
 * @returns undefined when there is no key
 */
export async function openDemo(
  { sockets, dataDir }: Pick<Config, 'sockets' | 'dataDir'>,
  operatorToken: string,
  options: DemoOptions,
): Promise<Demo | undefined> {
  const call = apiOnSocket(sockets.api)
  const keyFile = join(dataDir, 'demo-key')
  const patience = { ...options, deadline: Date.now() + patienceMs }
  const key = await patiently(() => openKey(call, operatorToken, keyFile), patience)
  if (key === undefined) return undefined
  const site = await patiently(() => openSite(call, key, sockets.edge, join(dataDir, 'demo-site-id')), patience)
  return { key, keyFile, site }
}

/** Repeats a step that fails, until it is refused or has failed for too long; then that is reported and the answer is undefined. */
async function patiently<Result>(
  step: () => Promise<Result>,
  { report, signal, deadline }: DemoOptions & { readonly deadline: number },
): Promise<Result | undefined> {
  for (let tries = 1; ; tries++) {
    try {
      return await step()
    } catch (error) {
      signal.throwIfAborted()
      const { message } = error as Error
      if (error instanceof RefusedError || Date.now() > deadline) {
        report(`the demo site is not ready: ${message}; the next start tries again`)
        return undefined
      }
      if (tries === 1) report(`the demo site has to wait: ${message}`)
    }
    await pause(retryGapMs, signal)
  }
}

/** An answer that another try would not change. */
class RefusedError extends Error {}

/** Undefined when the owner has deleted it. */
async function openSite(call: CallApi, key: string, edgeSocket: string, doneFile: string): Promise<DemoSite | undefined> {
  const doneId = await readSecret(doneFile)
  const sites = expectOk(await call('GET /api/v1/sites', key)) as DemoSite[]
  if (doneId !== undefined) return sites.find(({ id }) => id === doneId)
  const site =
    sites.find((site) => site.subdomain === subdomain) ??
    (expectOk(await call('POST /api/v1/sites', key, { name: 'Plinth demo', subdomain })) as DemoSite)
  const deploys = expectOk(await call(`GET /api/v1/sites/${site.id}/deploys`, key)) as { id: string; status: string }[]
  const deploy =
    deploys.find(({ status }) => status !== 'failed') ??
    expectOk(await call(`POST /api/v1/sites/${site.id}/deploy-files`, key, { files: await demoFiles(site) }))
  await published(call, key, deploy.id)
  await waitUntil('the demo site', () => isServed(edgeSocket, site.url), { timeoutMs: 10_000 })
  await writeSecret(doneFile, site.id)
  return site
}

/** The kept key when it still works, else a new one of the same project. */
async function openKey(call: CallApi, operatorToken: string, keyFile: string): Promise<string> {
  const kept = await readSecret(keyFile)
  if (kept !== undefined) {
    const answer = await call('GET /api/v1/whoami', kept)
    if (answer.status === 200) return kept
    // the key may be good, and a new one would take its place
    if (isTemporary(answer)) expectOk(answer)
  }
  const projects = expectOk(await call('GET /operator/v1/projects', operatorToken)) as { id: string; name: string }[]
  const project =
    projects.find(({ name }) => name === projectName) ??
    (expectOk(
      await call('POST /operator/v1/projects', operatorToken, {
        name: projectName,
        owner_email: 'demo@example.com',
        plan: 'enterprise',
      }),
    ) as { id: string })
  const made = expectOk(
    await call(`POST /operator/v1/projects/${project.id}/keys`, operatorToken, { name: 'demo', scope: 'full' }),
  ) as {
    key: string
  }
  await writeSecret(keyFile, made.key)
  return made.key
}

async function published(call: CallApi, key: string, deployId: string): Promise<void> {
  const deadline = Date.now() + 30_000
  for (;;) {
    const { status, error } = expectOk(await call(`GET /api/v1/deploys/${deployId}`, key)) as {
      status: string
      error: string | null
    }
    if (status === 'active' || status === 'superseded') return
    if (status === 'failed') throw new RefusedError(`its deploy failed: ${error ?? 'no reason given'}`)
    if (Date.now() > deadline) throw new Error(`its deploy is still ${status} after 30 s`)
    await delay(25)
  }
}

/** Whether the edge has heard of the deploy. */
async function isServed(edgeSocket: string, url: string): Promise<boolean> {
  const outgoing = request({ socketPath: edgeSocket, headers: { host: new URL(url).host }, timeout: 5000 }).end()
  outgoing.on('error', () => undefined)
  outgoing.on('timeout', () => outgoing.destroy(new Error('the edge did not answer within 5 s')))
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  response.resume()
  return response.statusCode === 200
}

/** Its contact form names its own endpoint. */
async function demoFiles({ id, form_endpoint }: DemoSite): Promise<{ path: string; content: string }[]> {
  const names = await readdir(siteDir)
  const form = formHtml(form_endpoint, id)
  return Promise.all(
    names.map(async (path) => {
      const content = await readFile(join(siteDir, path), 'utf8')
      return { path, content: content.replace('<!-- contact form -->', () => form) }
    }),
  )
}

// biome-ignore lint/suspicious/noExplicitAny: as in ApiAnswer
function expectOk(answer: ApiAnswer): any {
  const { status, body } = answer
  if (status === 200) return body
  const message = `the API answered ${status}: ${JSON.stringify(body)}`
  throw isTemporary(answer) ? new Error(message) : new RefusedError(message)
}

const isTemporary = ({ status }: ApiAnswer) => status >= 500 || status === 429
