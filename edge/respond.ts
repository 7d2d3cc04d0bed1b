import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Encoding, mayHaveBackgroundVariants } from '../core/encodings.ts'
import type { RedirectStatus } from '../core/site-rules/rules.ts'
import { objectHeaders } from '../infra/caddy/stored-objects.ts'
import type { OpenedObject } from '../infra/cas/cas.ts'
import { fileName } from '../infra/cas/disk-layout.ts'
import { type Answered, whenRead } from './answered.ts'
import type { ClientLimit } from './clients.ts'
import { matchedETag, type Part, parseRange, passesIfMatch, preferredEncodings } from './conditions.ts'
import type { Content } from './content.ts'
import { type Page, pages } from './pages.ts'
import { createPieceWriter } from './piece-writer.ts'
import type { SiteFile } from './site-files.ts'
import type { Traffic } from './traffic/traffic.ts'

/** One request and its response. */
export interface Exchange {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly downloads: ClientLimit
  /** Whether Caddy may send a large file by itself. */
  caddySends?: boolean
  /** Set for previews and closed sites, whose responses differ; the prepared headers of a file are shared by all responses. */
  overlay?: Overlay | undefined
  readonly traffic?: Traffic | undefined
  /** The site whose traffic this is; undefined for previews and for what the platform itself answers. */
  siteId?: string | undefined
  /** Whether the variants of a deploy that are made in the background may be used. */
  compressed?: boolean
}

/** Changes every response of an exchange. */
export interface Overlay {
  /** Replaces the Cache-Control of the response. */
  cacheControl(own: string): string
  /** Headers to add, as a flat list of names and values. */
  readonly headers: readonly string[]
  /** Headers to add unless the response has its own, as a flat list of names in lower case and values. */
  readonly defaults?: readonly string[]
  /** What the response depends on besides: names of request headers, for Vary. */
  readonly vary?: string
  /** The names of the headers, in lower case, that `_headers` cannot set besides those that it never can. */
  readonly reserved?: ReadonlySet<string>
}

export function sendPage(exchange: Exchange, page: Page): void {
  sendBuffer(exchange, page.status, page.headers, page.body)
}

/** Sends a plain text that no cache keeps. */
export function sendText(exchange: Exchange, text: string): void {
  const headers = ['Content-Type', 'text/plain; charset=utf-8', 'Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff']
  sendBuffer(exchange, 200, headers, Buffer.from(text))
}

/** Sends a redirect that is revalidated each time, even a permanent one: the next deploy may have a file of that name. */
export function sendRedirect(exchange: Exchange, status: RedirectStatus, location: string): void {
  const headers = ['Location', location, 'Cache-Control', 'no-cache', 'X-Content-Type-Options', 'nosniff']
  sendBuffer(exchange, status, headers, Buffer.alloc(0))
}

/**
 * Answers with a file of a site. Conditions and ranges are those of RFC 9110; they apply to status 200 only, and a range is
 * always a range of the plain bytes.
 * @throws when the storage fails; if the headers have been sent by then, the connection is already closed
 */
export function sendFile(exchange: Exchange, content: Content, file: SiteFile, status: 200 | 404): Answered {
  if (status === 404) return sendWhole(exchange, content, file, status)
  const { method, headers } = exchange.req

  const ifMatch = headers['if-match']
  if (ifMatch !== undefined && !passesIfMatch(ifMatch, file.etags)) return sendPage(exchange, pages.preconditionFailed)

  const ifNoneMatch = headers['if-none-match']
  const etag = ifNoneMatch === undefined ? undefined : matchedETag(ifNoneMatch, file.etags)
  if (etag !== undefined) {
    writeHead(exchange, 304, file.unchangedHeaders, ['ETag', etag])
    exchange.res.end()
    return count(exchange, 304, file.plainHeaders, 0)
  }

  const wanted = method === 'GET' ? headers.range : undefined
  if (wanted === undefined) return sendWhole(exchange, content, file, status)
  const range = parseRange(wanted, headers['if-range']?.toString(), file.size, file.etags.plain)
  if (!range) return sendWhole(exchange, content, file, status)
  if (range === 'unsatisfiable') {
    const unsatisfiable = ['Content-Range', `bytes */${file.size}`, 'Cache-Control', 'no-store']
    return sendBuffer(exchange, 416, unsatisfiable, Buffer.alloc(0))
  }
  return sendPart(exchange, content, file, range)
}

function sendWhole(exchange: Exchange, content: Content, file: SiteFile, status: 200 | 404): Answered {
  if (!file.mayHaveVariants) return sendPlain(exchange, content, file, status)
  const { all, madeAtOnce } = preferredEncodings(exchange.req.headers['accept-encoding']?.toString())
  const wanted = exchange.compressed && mayHaveBackgroundVariants(file.size) ? all : madeAtOnce
  return sendVariant(exchange, content, file, status, wanted)
}

/** Sends the first of the wanted variants that there is, or plain bytes. */
function sendVariant(
  exchange: Exchange,
  content: Content,
  file: SiteFile,
  status: 200 | 404,
  wanted: readonly Encoding[],
): Answered {
  const [encoding] = wanted
  if (encoding === undefined) return sendPlain(exchange, content, file, status)
  return whenRead(content.body(file, encoding), (body) => {
    if (body === 'absent') return sendVariant(exchange, content, file, status, wanted.slice(1))
    const headers = file.variantHeaders[encoding]
    if (body === 'large') return sendLarge(exchange, content, file, status, encoding)
    return sendBuffer(exchange, status, headers, body)
  })
}

const sendPlain = (exchange: Exchange, content: Content, file: SiteFile, status: 200 | 404): Answered =>
  whenRead(content.body(file), (body) =>
    typeof body === 'string' ? sendLarge(exchange, content, file, status) : sendBuffer(exchange, status, file.plainHeaders, body),
  )

/** Sends a body that is not in memory, or lets Caddy send it. */
function sendLarge(exchange: Exchange, content: Content, file: SiteFile, status: 200 | 404, encoding?: Encoding): Promise<void> {
  const headers = encoding ? file.variantHeaders[encoding] : file.plainHeaders
  const open = () => content.open(file, encoding)
  if (!exchange.caddySends || status !== 200 || exchange.req.method === 'HEAD') return sendObject(exchange, status, headers, open)
  return leaveToCaddy(exchange, headers, fileName(file.sha256, encoding), open)
}

function sendPart(exchange: Exchange, content: Content, file: SiteFile, part: Part): Answered {
  return whenRead(content.body(file), (body) => {
    if (typeof body === 'string') return sendObject(exchange, 206, file.plainHeaders, () => content.open(file), part)
    writeHead(exchange, 206, file.plainHeaders, ofPart(part, file.size))
    exchange.res.end(body.subarray(part.start, part.end + 1))
    return count(exchange, 206, file.plainHeaders, part.end - part.start + 1)
  })
}

const lengthOf = ({ start, end }: Part) => String(end - start + 1)
const ofPart = (part: Part, size: number) => [
  'Content-Range',
  `bytes ${part.start}-${part.end}/${size}`,
  'Content-Length',
  lengthOf(part),
]

function sendBuffer(exchange: Exchange, status: number, headers: readonly string[], body: Buffer): void {
  const { req, res } = exchange
  const isHead = req.method === 'HEAD'
  writeHead(exchange, status, withLength(headers, body.length))
  res.end(isHead ? undefined : body)
  count(exchange, status, headers, isHead ? 0 : body.length)
}

/**
 * Lets Caddy read the body from the storage, which takes a third less processor time. The answer stays open until the download ends: Caddy
 * then closes the connection, but does not say how much of the file it has sent. Hence parts of files are never left to it: a player asks for the
 * rest of a film again and again, and takes a little of it.
 */
async function leaveToCaddy(
  exchange: Exchange,
  headers: readonly string[],
  name: string,
  open: () => Promise<OpenedObject>,
): Promise<void> {
  const { req, res, downloads } = exchange
  const end = downloads.start(req)
  if (!end) return sendPage(exchange, pages.tooManyDownloads)
  try {
    // what is missing or damaged is found before its headers are sent
    const object = await open()
    await object.close()
    if (res.destroyed) return
    const { promise: ended, resolve } = Promise.withResolvers<void>()
    res.once('close', resolve)
    // nothing moves on this connection any more
    res.setTimeout(0)
    writeHead(exchange, 200, headers, [objectHeaders.name, name, objectHeaders.length, String(object.size)])
    res.flushHeaders()
    count(exchange, 200, headers, object.size)
    await ended
  } finally {
    end()
  }
}

/** Sends a body at the pace of the visitor. The object is closed however the response ends. */
async function sendObject(
  exchange: Exchange,
  status: number,
  headers: readonly string[],
  open: () => Promise<OpenedObject>,
  wanted?: Part,
): Promise<void> {
  const { req, res, downloads } = exchange
  const end = downloads.start(req)
  if (!end) return sendPage(exchange, pages.tooManyDownloads)
  let sent = 0
  try {
    const object = await open()
    const part = wanted ?? { start: 0, end: object.size - 1 }
    const unread = req.method === 'HEAD' || res.destroyed
    if (unread) await object.close()
    writeHead(exchange, status, headers, wanted ? ofPart(wanted, object.size) : ['Content-Length', lengthOf(part)])
    if (unread) res.end()
    else {
      const write = createPieceWriter(res)
      const writeCounted = async (piece: Buffer) => {
        await write(piece)
        sent += piece.length
      }
      await object.send(writeCounted, part.start, part.end)
      res.end()
    }
  } finally {
    end()
    if (res.headersSent) count(exchange, status, headers, sent)
  }
}

/** Counts a response of a site. @param headers those of a file, or of a page, begin with its type */
function count({ traffic, siteId, req }: Exchange, status: number, headers: readonly string[], bytes: number): void {
  if (siteId !== undefined) traffic?.record(siteId, req, status, headers[1] ?? '', bytes)
}

/** @param more headers of this response alone, which no overlay changes */
function writeHead({ res, overlay }: Exchange, status: number, headers: readonly string[], more: readonly string[] = []): void {
  const own = overlay ? withOverlay(headers, overlay) : headers
  // it does not change the list
  res.writeHead(status, more.length === 0 ? (own as string[]) : [...own, ...more])
}

/** By list: most bodies with the headers of a list have one length. */
const lengths = new WeakMap<readonly string[], { readonly length: number; readonly headers: readonly string[] }>()

function withLength(headers: readonly string[], length: number): readonly string[] {
  const known = lengths.get(headers)
  if (known?.length === length) return known.headers
  const made = { length, headers: headers.concat('Content-Length', String(length)) }
  lengths.set(headers, made)
  return made.headers
}

/** By overlay and by list: those of a file are shared by all responses with it. */
const made = new WeakMap<Overlay, WeakMap<readonly string[], readonly string[]>>()

function withOverlay(headers: readonly string[], overlay: Overlay): readonly string[] {
  const byList = made.get(overlay) ?? new WeakMap<readonly string[], readonly string[]>()
  made.set(overlay, byList)
  const known = byList.get(headers)
  if (known) return known
  const changed = [...headers]
  replaceValue(changed, 'Cache-Control', (own) => overlay.cacheControl(own))
  const { vary } = overlay
  if (vary !== undefined && !replaceValue(changed, 'Vary', (own) => `${own}, ${vary}`)) changed.push('Vary', vary)
  changed.push(...overlay.headers, ...absentOf(overlay.defaults ?? [], changed))
  byList.set(headers, changed)
  return changed
}

function absentOf(defaults: readonly string[], headers: readonly string[]): readonly string[] {
  const names = headers.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase())
  return defaults.filter((_, i) => !names.includes(defaults[i - (i % 2)] ?? ''))
}

/** @returns whether the flat list has the header */
function replaceValue(headers: string[], name: string, value: (own: string) => string): boolean {
  // a value may look like a name
  const at = headers.findIndex((text, i) => i % 2 === 0 && text === name) + 1
  if (at > 0) headers[at] = value(headers[at] ?? '')
  return at > 0
}
