import { once } from 'node:events'
import type { IncomingMessage, RequestOptions } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import type { Config } from '../infra/config.ts'
import { request } from '../infra/http.ts'
import type { BuildInput } from '../workflows/contract/builds.ts'

/** The variables of the build step. */
export interface BuildVariables {
  readonly values: Readonly<Record<string, string>>
  /** Values that must not be shown. */
  readonly secrets: readonly string[]
}

/** `refused` is a text for the owner of the site. */
export type VariablesAnswer = BuildVariables | { readonly refused: string }

/** Reads the variables of a build that this runner has taken. @throws Error when the api does not answer, or does not know the build any more */
export type ReadVariables = (build: BuildInput, signal: AbortSignal) => Promise<VariablesAnswer>

/** Longer than the api takes to start again. */
const patienceMs = 60_000
const pauseMs = 1000
const answerTimeoutMs = 10_000
/** 64 KB of values, each character as an escape of six bytes, twice. */
const maxAnswerBytes = 1024 * 1024

export interface ApiAccess {
  /** Undefined: the socket of the api on this machine. */
  readonly url: string | undefined
  readonly token: string
}

/** Reads variables from the api, over its socket or an address. They are in no payload, argument or file. */
export function createVariablesReader({ sockets }: Pick<Config, 'sockets'>, { url, token }: ApiAccess): ReadVariables {
  return async ({ deploy_id, run: { attempt, run_id } }, signal) => {
    const path = `/internal/builds/${deploy_id}/variables?${new URLSearchParams({ attempt: String(attempt), run_id }).toString()}`
    const deadline = performance.now() + patienceMs
    for (;;) {
      const answer = await ask(path, signal).catch((error: Error) => error)
      signal.throwIfAborted()
      const isAway = answer instanceof Error || answer.status >= 500 || answer.status === 429
      if (!isAway) return variablesOf(answer)
      if (performance.now() > deadline) throw new Error(`the api gave no variables: ${reasonOf(answer)}`)
      await pause(pauseMs, undefined, { signal })
    }
  }

  async function ask(path: string, signal: AbortSignal): Promise<Answer> {
    const options: RequestOptions = {
      headers: { host: url ? new URL(url).host : 'localhost', authorization: `Bearer ${token}` },
      timeout: answerTimeoutMs,
      signal,
    }
    const outgoing = url ? requestTo(url)(new URL(path, url), options) : request({ ...options, socketPath: sockets.api, path })
    outgoing.on('timeout', () => outgoing.destroy(new Error('no answer in time')))
    outgoing.end()
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    return { status: response.statusCode ?? 0, text: await boundedText(response) }
  }
}

interface Answer {
  readonly status: number
  readonly text: string
}

const requestTo = (url: string) => (url.startsWith('https:') ? process.getBuiltinModule('node:https').request : request)

const reasonOf = (answer: Answer | Error) => (answer instanceof Error ? answer.message : `status ${answer.status}`)

function variablesOf({ status, text }: Answer): VariablesAnswer {
  if (status === 200) return JSON.parse(text) as BuildVariables
  if (status === 409) return { refused: (JSON.parse(text) as { message: string }).message }
  if (status === 401) throw new Error('the api does not accept PLINTH_RUNNER_TOKEN')
  throw new Error(`the api does not know this build any more (status ${status})`)
}

async function boundedText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxAnswerBytes) throw new Error('the api answered more than variables can have')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
