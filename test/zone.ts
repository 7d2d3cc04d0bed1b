import { Packet, type Resource } from 'dns2'
import { type Handler, type Query, reply, startDnsServer } from './infra/dns-server.ts'

const { TYPE } = Packet
const NXDOMAIN = 3

type ZoneType = 'TXT' | 'A' | 'AAAA' | 'CNAME' | 'CAA'

/** A name server whose records a test sets. */
export interface Zone extends AsyncDisposable {
  /** As PLINTH_DNS_SERVERS has it. */
  readonly address: string
  /** Transports and names in the order they were asked. */
  readonly asked: string[]
  /** Replaces all records of the type at the name; none when there are no values. A value of CAA is a tag and a text. */
  set(type: ZoneType, name: string, ...values: string[]): void
  /** What is answered in place of the records, until `undefined` is given. */
  misbehave(handle: Handler | undefined): void
}

export async function startZone(): Promise<Zone> {
  const records = new Map<string, Partial<Resource>[]>()
  let hostile: Handler | undefined
  const answer = (query: Query) => {
    const name = query.name.toLowerCase()
    const own = (type: number) => records.get(`${type} ${name}`) ?? []
    const wild = (type: number) => records.get(`${type} *${name.slice(name.indexOf('.'))}`) ?? []
    const found = [query.type, TYPE.CNAME].flatMap((type) => {
      const listed = own(type).length > 0 ? own(type) : wild(type)
      return listed.map((record) => ({ ...record, type }))
    })
    return reply(query, { answers: found, rcode: found.length > 0 ? 0 : NXDOMAIN })
  }
  const server = await startDnsServer((query, connection) => (hostile ?? answer)(query, connection))
  return {
    address: `${server.address}:${server.port}`,
    asked: server.asked,
    set(type, name, ...values) {
      records.set(
        `${TYPE[type]} ${name}`,
        values.map((value) => recordOf(type, value)),
      )
    },
    misbehave(handle) {
      hostile = handle
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

function recordOf(type: ZoneType, value: string): Partial<Resource> {
  if (type === 'TXT') return { data: value.match(/.{1,255}/gs) ?? [''] }
  if (type === 'CNAME') return { domain: value }
  if (type !== 'CAA') return { address: value }
  const [tag = '', ...text] = value.split(' ')
  return { flags: 0, tag, value: text.join(' ') }
}
