import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { startGitServer } from '../infra/git-server.ts'
import { startMailServer } from '../infra/mail-server.ts'
import { type Canaries, createCanaries } from './canaries.ts'
import { ok, type Platform, startPlatform } from './platform.ts'
import { crashEdge, crashOthers } from './secret-crashes.ts'
import { gitToken, useRepository, useWebhook } from './secret-hooks.ts'
import * as steps from './secret-steps.ts'
import { connectionAddress, type Uses, visitorAddress, visitorHeaders } from './secret-steps.ts'

const smtpPassword = 'canary-5e0d3b-smtp-password'

/** One answer that was not a success. */
export interface Refusal {
  readonly endpoint: string
  readonly status: number
  /** Headers and body. */
  readonly text: string
}

/** A platform that runs for real, with all that it has written in its log at the level `debug`, and every secret that was used in it. */
export interface SecretUses extends AsyncDisposable {
  readonly platform: Platform
  readonly temporalPort: number
  readonly canaries: Canaries
  readonly refusals: readonly Refusal[]
}

export async function useSecrets(temporalPort: number): Promise<SecretUses> {
  await using opened = new AsyncDisposableStack()
  const canaries = createCanaries()
  const mails = opened.use(await startMailServer())
  const vault = opened.use(await startGitServer({ tls: true, credentials: `oauth2:${gitToken}` }))
  const smtpUrl = new URL(mails.url)
  smtpUrl.username = 'plinth'
  smtpUrl.password = smtpPassword
  const settings = {
    PLINTH_LOG_LEVEL: 'debug',
    PLINTH_SMTP_URL: smtpUrl.href,
    PLINTH_TEMPORAL_PORT: String(temporalPort),
    PLINTH_TRUSTED_PROXIES: '127.0.0.1/32',
    PLINTH_ALLOW_PRIVATE_GIT: 'true',
    PLINTH_ALLOW_PRIVATE_WEBHOOKS: 'true',
    NODE_EXTRA_CA_CERTS: vault.caFile,
  }
  const platform = opened.use(await startPlatform({ settings }))
  const owner = await platform.project('enterprise')
  // svc_<id>_<secret>; the secret itself may hold an underscore
  for (const key of [owner.key, owner.readonlyKey]) canaries.add('credential', 'project key', key.split('_').slice(2).join('_'))
  canaries.add('credential', 'operator token', platform.operatorToken)
  canaries.add('credential', 'git token', gitToken)
  canaries.add('credential', 'git token in a header', btoa(`oauth2:${gitToken}`))
  canaries.add('credential', 'password of the mail server', smtpPassword)
  canaries.add('visitor', 'address of a visitor', visitorAddress)
  canaries.add('visitor', 'address of a connection', connectionAddress)
  const refusals: Refusal[] = []
  const call: Platform['call'] = async (endpoint, sent) => {
    const answer = await platform.call(endpoint, sent)
    const { status, headers, body } = answer
    if (status >= 400) refusals.push({ endpoint, status, text: JSON.stringify([headers, body]) })
    return answer
  }
  const visit: Uses['visit'] = (endpoint, { host }, sent) =>
    call(endpoint, { ...sent, host, headers: { ...visitorHeaders, ...sent?.headers } })
  const uses: Uses = {
    platform,
    canaries,
    mails,
    vault,
    owner,
    call,
    visit,
    own: (endpoint, json, sent) => ok(call(endpoint, { key: owner.key, json, ...sent })),
    post: (path, site, fields, cookie) =>
      visit(`POST ${path}`, site, {
        bytes: new URLSearchParams(fields).toString(),
        type: 'application/x-www-form-urlencoded',
        headers: { origin: `http://${site.host}`, ...(cookie !== undefined && { cookie }) },
      }),
  }
  const receiver = opened.adopt(
    createServer((_req, res) => res.writeHead(500).end()).listen(0, '127.0.0.1'),
    (it) => void it.close(),
  )
  await once(receiver, 'listening')
  await useWebhook(uses, `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`)
  const [closed, delivered, hooked] = await Promise.all([
    steps.usePassword(uses),
    steps.useForm(uses),
    useRepository(uses),
    steps.useCodes(uses),
  ])
  const previewed = await steps.usePreviews(uses)
  await steps.useWrongPlaces(uses, delivered)
  await crashEdge(uses, { closed, delivered, previewed })
  await crashOthers(uses, { closed, delivered, hooked })
  const stack = opened.move()
  return { platform, temporalPort, canaries, refusals, [Symbol.asyncDispose]: () => stack.disposeAsync() }
}
