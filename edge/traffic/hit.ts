/** One answered request, as the edge notes it. Texts are cut to {@link maxTextBytes}. */
export interface Hit {
  /** When it was answered, in milliseconds. */
  atMs: number
  /** Of the body, as far as it was sent. */
  bytes: number
  request: NotedRequest
}

/** What was asked, and how it was answered. The reader gives equal ones the same object, as long as it remembers it. */
export interface NotedRequest {
  status: number
  /** A sum of {@link hitFlags}. */
  flags: number
  client: Client
  /** The raw target of the request. */
  target: string
  referer: string
}

/** Who asked whom. Requests of one client share the object, as long as the reader remembers it. */
export interface Client {
  siteId: string
  host: string
  userAgent: string
  address: string
}

export const hitFlags = { head: 1, page: 2, download: 4, fromStart: 8, acceptsLanguage: 16, prefetch: 32 } as const

/** How much of each text is kept, in bytes. */
export const maxTextBytes = { siteId: 36, host: 253, target: 1024, userAgent: 512, referer: 512, address: 45 } as const
