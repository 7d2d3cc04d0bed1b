import type { HttpClient } from 'isomorphic-git'
import { credentialsOf } from '../../core/git-remotes.ts'
import type { GuardedClient, GuardedResponse } from '../net/guarded-fetch.ts'
import { GitError, gitErrorOf } from './git-error.ts'

export interface RemoteOptions {
  readonly client: GuardedClient
  /** The result of `judgeRepoUrl`. */
  readonly url: string
  readonly token: string | undefined
  /** The most bytes of a response that is not a pack. */
  readonly maxAnswerBytes?: number
}

/** A repository over smart HTTP. Its credentials stay here; isomorphic-git never gets them. */
export interface Remote {
  readonly url: string
  /** The HTTP client for isomorphic-git. It throws a GitError. */
  readonly http: HttpClient
  /** Why a response ended early, when isomorphic-git took its beginning for the whole. */
  readonly brokenOff: () => unknown
  /** The version of the protocol, known once the refs have been listed. */
  readonly protocolVersion: () => 1 | 2
  /** Sends to git-upload-pack. @throws GitError */
  readonly uploadPack: (
    body: Uint8Array,
    maxBytes: number,
    headers?: Readonly<Record<string, string>>,
  ) => Promise<GuardedResponse>
}

const service = 'git-upload-pack'
const infoRefs = `/info/refs?service=${service}`
const defaultAnswerBytes = 16 * 1024 * 1024

export function openRemote({ client, url, token, maxAnswerBytes = defaultAnswerBytes }: RemoteOptions): Remote {
  let base = url
  const authorization = token === undefined ? undefined : basic(credentialsOf(new URL(url).hostname, token))
  const origin = new URL(url).origin
  // only the first request is redirected for a moved repository, so the following ones go to its final address
  const credentials = () => (new URL(base).origin === origin ? authorization : undefined)

  async function advertisement(headers: Readonly<Record<string, string>>): Promise<GuardedResponse> {
    const response = await client.request({
      url: `${url}${infoRefs}`,
      headers,
      authorization,
      maxBytes: maxAnswerBytes,
      maxRedirects: 3,
    })
    refuseStatus(response, token !== undefined)
    await refuseOtherType(response, `application/x-${service}-advertisement`)
    if (!response.url.href.endsWith(infoRefs))
      throw new GitError('redirect', 'the repository has moved to an address that is none')
    base = response.url.href.slice(0, -infoRefs.length)
    return response
  }

  async function uploadPack(body: Uint8Array, maxBytes: number, headers: Readonly<Record<string, string>> = {}) {
    const response = await client.request({
      url: `${base}/${service}`,
      method: 'POST',
      headers: { ...headers, 'content-type': `application/x-${service}-request`, accept: `application/x-${service}-result` },
      body,
      authorization: credentials(),
      maxBytes,
    })
    refuseStatus(response, token !== undefined)
    await refuseOtherType(response, `application/x-${service}-result`)
    return response
  }

  let version: 1 | 2 = 1
  let lastBody: { readonly error?: unknown } = {}
  const http: HttpClient = {
    async request({ method = 'GET', headers = {}, body }) {
      try {
        // refs are asked for in a second request by protocol 2 only
        if (method === 'POST') version = 2
        const response =
          method === 'POST' ? await uploadPack(await collected(body), maxAnswerBytes, headers) : await advertisement(headers)
        lastBody = response.body as typeof lastBody
        return { url, method, headers: response.headers, body: response.body, statusCode: response.status, statusMessage: '' }
      } catch (error) {
        throw gitErrorOf(error)
      }
    },
  }
  return {
    url,
    http,
    // it leaves its reason there
    brokenOff: () => gitErrorOf(lastBody.error),
    protocolVersion: () => version,
    uploadPack: (...sent) => uploadPack(...sent).catch((error: unknown) => Promise.reject(gitErrorOf(error))),
  }
}

const basic = ({ username, password }: ReturnType<typeof credentialsOf>) =>
  `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`

function refuseStatus({ status, url }: GuardedResponse, hasToken: boolean): void {
  if (status === 200) return
  if (status === 401 || status === 403 || status === 404) {
    const hint = hasToken
      ? 'check the address, and that the token is valid and may read this repository'
      : 'check the address; a private repository needs a token that may read it'
    throw new GitError(
      'no_access',
      `the repository was not found, or there is no access to it (${url.host} answered ${status}): ${hint}`,
    )
  }
  if (status === 429 || status >= 500) {
    throw new GitError('busy', `${url.host} cannot give out the repository now (it answered ${status}); it is tried again later`)
  }
  throw new GitError(
    'not_git',
    `${url.host} answered ${status} where a git server is expected; check the address of the repository`,
  )
}

/** Refuses a page or a list of files instead of git's response, without showing any of it. */
async function refuseOtherType({ headers, body, url }: GuardedResponse, expected: string): Promise<void> {
  if (headers['content-type']?.split(';')[0]?.trim() === expected) return
  const first = await body.next()
  await body.return()
  if (!first.done && /^[0-9a-f]{40}\t/.test(first.value.toString('latin1', 0, 64))) {
    throw new GitError(
      'dumb_http',
      `${url.host} serves the repository as plain files (the dumb HTTP protocol), which is not supported; use a git server with smart HTTP`,
    )
  }
  throw new GitError('not_git', `${url.host} is not a git server at this address; use the address that \`git clone\` takes`)
}

async function collected(body: AsyncIterable<Uint8Array> | Iterable<Uint8Array> | undefined): Promise<Buffer> {
  const parts: Uint8Array[] = []
  for await (const part of body ?? []) parts.push(part)
  return Buffer.concat(parts)
}
