import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { formHtml } from '../../core/form-html.ts'
import type { Config } from '../config.ts'
import { request } from '../http.ts'
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

/**
 * Makes the demo project, its key and its site through the API, as an operator would. Whatever is there is kept, so a start that was
 * killed in between is completed by the next one; a site that was deleted later is not made again.
 */
export async function openDemo({ sockets, dataDir }: Pick<Config, 'sockets' | 'dataDir'>, operatorToken: string): Promise<Demo> {
  const call = apiOnSocket(sockets.api)
  const keyFile = join(dataDir, 'demo-key')
  const doneFile = join(dataDir, 'demo-site-id')
  const key = await openKey(call, operatorToken, keyFile)
  const doneId = await readSecret(doneFile)
  const sites = expectOk(await call('GET /api/v1/sites', key)) as DemoSite[]
  if (doneId !== undefined) return { key, keyFile, site: sites.find(({ id }) => id === doneId) }
  const site =
    sites.find((site) => site.subdomain === subdomain) ??
    (expectOk(await call('POST /api/v1/sites', key, { name: 'Plinth demo', subdomain })) as DemoSite)
  const deploys = expectOk(await call(`GET /api/v1/sites/${site.id}/deploys`, key)) as { id: string }[]
  const deploy =
    deploys[0] ?? expectOk(await call(`POST /api/v1/sites/${site.id}/deploy-files`, key, { files: await demoFiles(site) }))
  await published(call, key, deploy.id)
  await waitUntil('the demo site', () => isServed(sockets.edge, site.url), { timeoutMs: 10_000 })
  await writeSecret(doneFile, site.id)
  return { key, keyFile, site }
}

/** The kept key when it still works, else a new one of the same project. */
async function openKey(call: CallApi, operatorToken: string, keyFile: string): Promise<string> {
  const kept = await readSecret(keyFile)
  if (kept !== undefined && (await call('GET /api/v1/whoami', kept)).status === 200) return kept
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
    if (status === 'failed') throw new Error(`the demo site was not published: ${error ?? 'no reason given'}`)
    if (Date.now() > deadline) throw new Error(`the demo site was not published within 30 s: its deploy is still ${status}`)
    await delay(25)
  }
}

/** Whether the edge has heard of the deploy. */
async function isServed(edgeSocket: string, url: string): Promise<boolean> {
  const outgoing = request({ socketPath: edgeSocket, headers: { host: new URL(url).host } }).end()
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
function expectOk({ status, body }: ApiAnswer): any {
  if (status !== 200) throw new Error(`the API answered ${status}: ${JSON.stringify(body)}`)
  return body
}
