import { readFile } from 'node:fs/promises'
import { Agent } from 'node:https'
import { setTimeout as delay } from 'node:timers/promises'
import acme from 'acme-client'
import { trusting } from '../net/trusted-authorities.ts'
import { describeCertificate, fits } from './certificates.ts'
import { AcmeError, failedChallenge } from './errors.ts'
import { converse, currentConversation } from './http.ts'

export interface AcmeOptions {
  readonly directoryUrl: string
  /** A PEM file of authorities that are trusted besides the machine's own. */
  readonly caFile?: string | undefined
  readonly email?: string | undefined
  /** PEM. The same key is the same account. */
  readonly accountKey: string
  /** How long one order may take. */
  readonly patienceMs?: number
}

/** The answer to one challenge. `value` is the body of `/.well-known/acme-challenge/<token>`, or the TXT value at `_acme-challenge.<name>`. */
export interface ChallengeAnswer {
  /** The name without `*.`: a wildcard and its parent need two values at the same name. */
  readonly name: string
  readonly token: string
  readonly value: string
}

export interface Challenge {
  readonly type: 'http-01' | 'dns-01'
  /** Resolves when the authority can see the answer. */
  readonly put: (answer: ChallengeAnswer) => Promise<void>
  readonly remove: (answer: ChallengeAnswer) => Promise<void>
}

export interface OrderInput {
  /** Lower-case punycode; wildcards need `dns-01`. */
  readonly names: readonly string[]
  readonly challenge: Challenge
  /** PEM of the certificate's key; a new one on P-256 when absent. */
  readonly key?: string
  readonly signal?: AbortSignal | undefined
}

export interface IssuedCertificate {
  /** PEM, the certificate first. */
  readonly certificate: string
  /** PEM */
  readonly key: string
  readonly notBefore: Date
  readonly notAfter: Date
}

export interface Acme {
  /** Runs one order to its certificate. Only refused nonces are retried. @throws AcmeError, and the errors of `put` */
  order(input: OrderInput): Promise<IssuedCertificate>
  /** Returns the URL of the account, which is created when the authority does not know the key. @throws AcmeError */
  accountUrl(signal?: AbortSignal): Promise<string>
  /** Returns the names of this authority in CAA records; empty when it does not publish them. @throws AcmeError */
  caaIdentities(signal?: AbortSignal): Promise<readonly string[]>
}

const firstPollMs = 250
const maxPollMs = 5000

/** Creates a key on P-256, as PEM, for an account or a certificate. */
export const createKey = async () => (await acme.crypto.createPrivateEcdsaKey('P-256')).toString()

/** @throws Error when the file of authorities cannot be read */
export async function openAcme({ directoryUrl, caFile, email, accountKey, patienceMs = 120_000 }: AcmeOptions): Promise<Acme> {
  const agent = new Agent(trusting(caFile === undefined ? undefined : await readFile(caFile, 'utf8')))
  let client = new acme.Client({ directoryUrl, accountKey })

  async function withAccount<T>(work: (client: acme.Client) => Promise<T>): Promise<T> {
    const used = client
    try {
      await register(used, email)
      return await work(used)
    } catch (error) {
      // an authority that lost its accounts knows the key again after the next registration
      if (error instanceof AcmeError && error.problem === 'accountDoesNotExist')
        client = new acme.Client({ directoryUrl, accountKey })
      throw error
    }
  }

  async function talk<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    const patience = AbortSignal.timeout(patienceMs)
    try {
      return await converse({ agent, signal: AbortSignal.any([patience, ...(signal ? [signal] : [])]) }, work)
    } catch (error) {
      signal?.throwIfAborted()
      if (!patience.aborted || error instanceof AcmeError) throw error
      throw new AcmeError(
        'stuck',
        `the certificate authority did not finish within ${Math.round(patienceMs / 1000)} s; we ask again`,
        {
          cause: error,
        },
      )
    }
  }

  return {
    order: (input) => talk(input.signal, () => withAccount((used) => issue(used, input))),
    accountUrl: (signal) => talk(signal, () => withAccount(async (used) => used.getAccountUrl())),
    caaIdentities: (signal) =>
      talk(signal, async () => {
        const { data } = await acme.axios.get<{ meta?: { caaIdentities?: unknown } } | null>(directoryUrl)
        const names = data?.meta?.caaIdentities
        return Array.isArray(names) ? names.filter((name) => typeof name === 'string') : []
      }),
  }
}

/** Creates the account or finds it by its key, unless this client has it already. */
async function register(client: acme.Client, email: string | undefined): Promise<void> {
  if (hasAccount(client)) return
  if (email !== undefined) {
    await ask(() => client.createAccount({ termsOfServiceAgreed: true, contact: [`mailto:${email}`] }))
    return
  }
  try {
    // acme-client updates an account that exists, and an update without contacts is refused
    await ask(() => client.createAccount({ onlyReturnExisting: true }))
  } catch (error) {
    if (!(error instanceof AcmeError) || error.problem !== 'accountDoesNotExist') throw error
    await createAccount(client)
  }
}

/** When another order creates the account first, the authority returns its URL and refuses an update without contacts. */
async function createAccount(client: acme.Client): Promise<void> {
  try {
    await ask(() => client.createAccount({ termsOfServiceAgreed: true }))
  } catch (error) {
    if (!(error instanceof AcmeError) || error.kind !== 'refused' || !hasAccount(client)) throw error
  }
}

function hasAccount(client: acme.Client): boolean {
  try {
    return client.getAccountUrl() !== ''
  } catch {
    return false
  }
}

async function issue(client: acme.Client, { names, challenge, key }: OrderInput): Promise<IssuedCertificate> {
  const order = await ask(() => client.createOrder({ identifiers: names.map((value) => ({ type: 'dns', value })) }))
  await prove(client, order, challenge)
  await poll(() => ask(() => client.getOrder(order)), isReady)
  const certificateKey = key ?? (await createKey())
  const [, request] = await acme.crypto.createCsr({ altNames: [...names] }, certificateKey)
  await ask(() => client.finalizeOrder(order, request))
  const done = await poll(() => ask(() => client.getOrder(order)), isIssued)
  const certificate = await ask(() => client.getCertificate(done))
  const described = await ask(async () => {
    if (!fits(certificate, certificateKey, names)) throw new Error('the certificate is for another key or other names')
    return describeCertificate(certificate)
  })
  return { certificate, key: certificateKey, notBefore: described.notBefore, notAfter: described.notAfter }
}

/** Answers the challenge of every name that is not yet authorized. The answers are always removed afterwards. */
async function prove(client: acme.Client, order: acme.Order, challenge: Challenge): Promise<void> {
  const authorizations = await ask(() => client.getAuthorizations(order))
  const answers: ChallengeAnswer[] = []
  try {
    for (const authorization of authorizations.filter(({ status }) => status !== 'valid')) {
      const { value: name } = authorization.identifier
      const offered = authorization.challenges.find(({ type }) => type === challenge.type)
      if (!offered) throw notOffered(authorization, challenge)
      const value = await ask(() => client.getChallengeKeyAuthorization(offered))
      const answer = { name, token: offered.token, value }
      answers.push(answer)
      await challenge.put(answer)
      await ask(() => client.completeChallenge(offered))
    }
    await poll(() => ask(() => client.getAuthorizations(order)), areProven)
  } finally {
    await Promise.allSettled(answers.map((answer) => challenge.remove(answer)))
  }
}

function notOffered({ identifier, wildcard, status, challenges }: acme.Authorization, { type }: Challenge): AcmeError {
  if (status !== 'pending') return failedChallenge(identifier.value, challenges.find(({ error }) => error)?.error)
  const why = wildcard ? ': wildcards are proved through DNS only' : ''
  return new AcmeError('refused', `the certificate authority offers no ${type} challenge for ${identifier.value}${why}`)
}

function areProven(authorizations: readonly acme.Authorization[]): boolean {
  for (const { identifier, status, challenges } of authorizations) {
    if (status !== 'valid' && status !== 'pending')
      throw failedChallenge(identifier.value, challenges.find(({ error }) => error)?.error)
  }
  return authorizations.every(({ status }) => status === 'valid')
}

const isReady = (order: acme.Order) => hasReached(order, 'ready')
const isIssued = (order: acme.Order) => hasReached(order, 'valid')

function hasReached({ status, error, identifiers }: acme.Order, wanted: string): boolean {
  if (status === 'invalid') throw failedChallenge(identifiers.map(({ value }) => value).join(', '), error)
  return status === wanted
}

/** Polls until it is done, with growing pauses or those that the authority asks for, until the conversation times out. */
async function poll<T>(read: () => Promise<T>, isDone: (value: T) => boolean): Promise<T> {
  for (let pauseMs = firstPollMs; ; pauseMs = Math.min(pauseMs * 1.5, maxPollMs)) {
    const value = await read()
    if (isDone(value)) return value
    const { signal, retryAfterMs = 0 } = currentConversation() ?? {}
    await delay(Math.max(pauseMs, Math.min(retryAfterMs, maxPollMs)), undefined, { ...(signal && { signal }) })
  }
}

/**
 * Calls acme-client. Responses with an error status are already an AcmeError; any other error means that acme-client could not interpret a
 * response.
 */
async function ask<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    currentConversation()?.signal.throwIfAborted()
    if (error instanceof AcmeError) throw error
    const { message } = error as Error
    throw new AcmeError(
      'unreachable',
      `the certificate authority gave an answer that we do not understand: ${message.slice(0, 200)}`,
      {
        cause: error,
      },
    )
  }
}
