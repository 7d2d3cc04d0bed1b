import type { Context as Koa } from 'koa'
import { invalid } from '../../core/errors.ts'
import { parseHost } from '../../core/hosts.ts'
import type { Config } from '../../infra/config.ts'
import type { Admitted } from '../admission.ts'
import { receiveBytes, requireMediaType } from '../body.ts'

/** A return path of 2 KB, whose every character may be escaped, and the other fields. */
const maxBodyBytes = 8 * 1024
const maxFields = 20
const maxOriginLength = 300

/** The host that a visitor uses, and how. */
export interface Place {
  /** In lower case, without a port. */
  readonly host: string
  readonly isSecure: boolean
  /** Of the pages at this host. */
  readonly origin: string
}

/** Undefined for a host that is none. The scheme is the one that Caddy reports, or without Caddy that of the platform. */
export function placeOf(koa: Koa, { urls }: Pick<Config, 'urls'>): Place | undefined {
  const hosts = koa.req.headersDistinct.host ?? []
  const host = parseHost(hosts)
  if (host === undefined || !koa.req.url?.startsWith('/')) return undefined
  const reported = koa.get('x-forwarded-proto')
  const protocol = reported === 'http' || reported === 'https' ? `${reported}:` : new URL(urls.base).protocol
  // with the port, and the final dot of a fully qualified name, as browsers have them
  const origin = URL.parse(`${protocol}//${hosts[0]}`)?.origin
  return origin === undefined ? undefined : { host, isSecure: protocol === 'https:', origin }
}

/** Whether a page of the same origin has sent the form: browsers say so, and no other page can make them lie. */
export function isFromSameOrigin(koa: Koa, { origin }: Place): boolean {
  const given = koa.get('origin')
  return given.length <= maxOriginLength && given === origin
}

/** Receives the fields of a form; of a repeated one the first counts. @throws AppError for another media type, or a body that is too large */
export async function receiveFields(koa: Koa, admitted: Admitted): Promise<ReadonlyMap<string, string>> {
  requireMediaType(koa.req, ['application/x-www-form-urlencoded'])
  const body = await receiveBytes(koa.req, {
    maxBytes: maxBodyBytes,
    hold: (bytes) => admitted.hold('memory', bytes),
    waitForSlot: () => admitted.waitForChunkSlot(),
  })
  const fields = new Map<string, string>()
  let count = 0
  for (const [name, value] of new URLSearchParams(`?${decode(body)}`)) {
    count += 1
    if (count > maxFields) throw invalid('the form has too many fields')
    if (!fields.has(name)) fields.set(name, value)
  }
  return fields
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function decode(body: Buffer): string {
  try {
    return utf8.decode(body)
  } catch {
    throw invalid('the form is not UTF-8')
  }
}
