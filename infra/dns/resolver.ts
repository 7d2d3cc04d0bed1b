import { Packet, type Resource } from 'dns2'
import { type CaaRecord, trimQuotes } from '../../core/domains.ts'
import { encodeQuery, type Message, RCODE, readMessage, TYPE } from './message.ts'
import type { ServerAddress } from './servers.ts'
import { askTcp, askUdp, NoAnswer } from './transport.ts'

export interface RecordTypes {
  /** The whole value: chunks joined, quotes around it trimmed. */
  readonly TXT: string
  readonly A: string
  readonly AAAA: string
  readonly CNAME: string
  readonly NS: string
  readonly CAA: CaaRecord
}

export type RecordType = keyof RecordTypes

export type Lookup<R> =
  | { readonly kind: 'found'; readonly records: readonly R[] }
  /** The name does not exist or has no such record. */
  | { readonly kind: 'absent' }
  /** `reason` names the servers and their errors. */
  | { readonly kind: 'failed'; readonly reason: string }

/** `disagreement`: the servers have different records, as while a change propagates. */
export type AgreedLookup<R> = Lookup<R> & { readonly disagreement: boolean }

export interface Resolver {
  /** Queries one server after the other until one answers. CNAMEs are followed. Never rejects. */
  lookup<T extends RecordType>(name: string, type: T): Promise<Lookup<RecordTypes[T]>>
  /** Queries all servers at once and returns only records that at least two of them have; with a single server the same as `lookup`. Never rejects. */
  lookupAgreed<T extends RecordType>(name: string, type: T): Promise<AgreedLookup<RecordTypes[T]>>
  /** Returns the CAA records that apply to the name: its own or, when it has none, those of its nearest parent (RFC 8659). Never rejects. */
  lookupCaa(name: string): Promise<Lookup<CaaRecord>>
}

export interface ResolverOptions {
  readonly servers: readonly ServerAddress[]
  readonly tryMs?: number
  /** The time limit of one call. The rest of 5 s is left for parsing. */
  readonly inAllMs?: number
}

const maxAliases = 8
const rounds = 2
const queryName = /^(?:[a-z0-9_-]{1,63}\.)+[a-z0-9_-]{1,63}$/

export function openResolver({ servers, tryMs = 2000, inAllMs = 4500 }: ResolverOptions): Resolver {
  const deadline = () => performance.now() + inAllMs
  const ask =
    (asked: readonly ServerAddress[], latest: number): Ask =>
    (name, type) =>
      askOneOf(asked, name, type, tryMs, latest)

  async function lookupAgreed<T extends RecordType>(name: string, type: T): Promise<AgreedLookup<RecordTypes[T]>> {
    const latest = deadline()
    if (servers.length < 2) return { ...(await follow(ask(servers, latest), name, type)), disagreement: false }
    return agree(await Promise.all(servers.map((server) => follow(ask([server], latest), name, type))))
  }

  async function lookupCaa(name: string): Promise<Lookup<CaaRecord>> {
    const latest = deadline()
    const labels = name.split('.')
    for (let skipped = 0; skipped < labels.length - 1; skipped++) {
      const found = await follow(ask(servers, latest), labels.slice(skipped).join('.'), 'CAA')
      if (found.kind !== 'absent') return found
    }
    return { kind: 'absent' }
  }

  return { lookup: (name, type) => follow(ask(servers, deadline()), name, type), lookupAgreed, lookupCaa }
}

/** @throws NoAnswer */
type Ask = (name: string, type: RecordType) => Promise<Message>

/** Ignores records that only one server has. */
function agree<R>(answers: readonly Lookup<R>[]): AgreedLookup<R> {
  const sets = answers.flatMap((answer) => (answer.kind === 'failed' ? [] : [answer.kind === 'found' ? answer.records : []]))
  if (sets.length < 2) {
    const reasons = answers.flatMap((answer) => (answer.kind === 'failed' ? [answer.reason] : []))
    return { kind: 'failed', reason: `fewer than two name servers answered: ${reasons.join('; ')}`, disagreement: false }
  }
  const counts = new Map<string, { readonly record: R; count: number }>()
  for (const set of sets) {
    for (const [key, record] of new Map(set.map((record) => [JSON.stringify(record), record]))) {
      const known = counts.get(key)
      if (known) known.count++
      else counts.set(key, { record, count: 1 })
    }
  }
  const disagreement = [...counts.values()].some(({ count }) => count < sets.length)
  const records = [...counts.values()].filter(({ count }) => count > 1).map(({ record }) => record)
  return records.length > 0 ? { kind: 'found', records, disagreement } : { kind: 'absent', disagreement }
}

async function follow<T extends RecordType>(ask: Ask, name: string, type: T): Promise<Lookup<RecordTypes[T]>> {
  try {
    return await followAliases(ask, name.toLowerCase(), type)
  } catch (error) {
    if (error instanceof NoAnswer) return { kind: 'failed', reason: error.message }
    throw error
  }
}

/** @throws NoAnswer */
async function followAliases<T extends RecordType>(ask: Ask, name: string, type: T): Promise<Lookup<RecordTypes[T]>> {
  const seen = new Set([name])
  let current = name
  for (;;) {
    const asked = current
    const { answers, rcode } = await ask(asked, type)
    for (;;) {
      const named = answers.filter((record) => record.name.toLowerCase() === current)
      const wanted = named.filter((record) => record.type === TYPE[type])
      if (wanted.length > 0) return { kind: 'found', records: wanted.map((record) => readValue[type](record)) }
      const alias = named.find((record) => record.type === TYPE.CNAME)?.domain?.toLowerCase()
      if (alias === undefined) break
      if (seen.has(alias)) throw new NoAnswer(`the CNAME records of ${name} lead in a circle`)
      if (seen.size > maxAliases) throw new NoAnswer(`the CNAME records of ${name} lead over more than ${maxAliases} names`)
      seen.add(alias)
      current = alias
    }
    if (current === asked || rcode === RCODE.NXDOMAIN) return { kind: 'absent' }
  }
}

const readValue: { readonly [T in RecordType]: (record: Resource) => RecordTypes[T] } = {
  TXT: ({ data }) => trimQuotes(Array.isArray(data) ? data.join('') : (data ?? '')),
  A: ({ address }) => address ?? '',
  AAAA: ({ address }) => address ?? '',
  CNAME: ({ domain }) => domain?.toLowerCase() ?? '',
  NS: ({ ns }) => ns?.toLowerCase() ?? '',
  CAA: ({ flags, tag, value }) => ({ flags: flags ?? 0, tag: tag?.toLowerCase() ?? '', value: value ?? '' }),
}

/**
 * Returns the first answer of any server. A server that did not answer is retried after the others; one that refused is not.
 * @throws NoAnswer with the error of each server
 */
async function askOneOf(
  servers: readonly ServerAddress[],
  name: string,
  type: RecordType,
  tryMs: number,
  latest: number,
): Promise<Message> {
  if (name.length > 253 || !queryName.test(name)) throw new NoAnswer(`${name.slice(0, 260)} is no name that can be looked up`)
  const reasons = new Map<ServerAddress, string>()
  const refused = new Set<ServerAddress>()
  for (let round = 0; round < rounds; round++) {
    for (const server of servers) {
      const timeLeft = () => Math.min(tryMs, latest - performance.now())
      if (refused.has(server) || timeLeft() <= 0) continue
      try {
        const message = await exchange(server, name, type, timeLeft)
        if (message.rcode === RCODE.NOERROR || message.rcode === RCODE.NXDOMAIN) return message
        reasons.set(server, `answered ${nameOfRcode(message.rcode)}`)
        refused.add(server)
      } catch (error) {
        if (!(error instanceof NoAnswer)) throw error
        reasons.set(server, error.message)
      }
    }
  }
  const said = [...reasons].map(([{ address }, reason]) => `the name server ${address} ${reason}`)
  throw new NoAnswer(said.length > 0 ? said.join('; ') : 'no name server answered in time')
}

/** @throws NoAnswer */
async function exchange(server: ServerAddress, name: string, type: RecordType, timeLeft: () => number): Promise<Message> {
  const send = (ask: typeof askUdp) => {
    const id = Packet.uuid()
    return ask(server, encodeQuery(id, name, TYPE[type]), Math.max(1, timeLeft()), (bytes) => readReply(bytes, id, name, type))
  }
  const reply = await send(askUdp)
  if (!reply.truncated) return reply
  const whole = await send(askTcp)
  if (whole.truncated) throw new NoAnswer('sent a truncated message over TCP')
  return whole
}

/** Undefined unless it answers this query: a reply with another id or name may be forged. */
function readReply(bytes: Buffer, id: number, name: string, type: RecordType): Message | undefined {
  if (bytes.length < 12 || bytes.readUInt16BE(0) !== id) return undefined
  const message = readMessage(bytes, [TYPE[type], TYPE.CNAME])
  if (!message?.isReply || message.opcode !== 0) return undefined
  const { question } = message
  if (!question) return message.rcode === RCODE.NOERROR || message.rcode === RCODE.NXDOMAIN ? undefined : message
  return question.name.toLowerCase() === name && question.type === TYPE[type] ? message : undefined
}

const nameOfRcode = (rcode: number) => Object.entries(RCODE).find(([, code]) => code === rcode)?.[0] ?? `code ${rcode}`
