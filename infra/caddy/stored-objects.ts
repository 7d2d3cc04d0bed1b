import { fileURLToPath } from 'node:url'
import { objectsIn } from '../cas/disk-layout.ts'
import type { Config } from '../config.ts'

type Json = Readonly<Record<string, unknown>>

/**
 * Headers of an answer whose body Caddy shall read from the storage: the name of the file below its objects, and its bytes. They are removed, and
 * no site can set them (`core/site-rules/header-names.ts`).
 */
export const objectHeaders = { name: 'Plinth-Object', length: 'Plinth-Length' } as const

/** Conditions and ranges, which the edge has evaluated. */
const evaluated = ['If-Match', 'If-None-Match', 'If-Modified-Since', 'If-Unmodified-Since', 'If-Range', 'Range']

/** What Caddy's file server adds to every file: it is as the edge says, or left out. */
const ofFileServer = ['Vary', 'Accept-Ranges']

/** This handler reads no text such as `60s`. */
const nanosecondsOfMs = 1_000_000

/** The value of a header of the edge's answer. */
const value = (header: string) => `{http.reverse_proxy.header.${header}}`

/**
 * What Caddy does with such an answer: it sends the headers of the edge with the bytes of the file, and leaves the body of the answer open until
 * the download has ended or broken off. Nothing of the file itself is shown: from its time a site would learn what others store.
 * @param stalledMs how long a visitor may read nothing
 */
export function sendsStoredObjects({ storage }: Config, stalledMs: number): Json {
  const { name, length } = objectHeaders
  return {
    match: { headers: { [name]: ['*'] } },
    routes: [
      ...ofFileServer.map((header) => ({
        match: [{ vars: { [value(header)]: [''] } }],
        handle: [{ handler: 'headers', response: { deferred: true, delete: [header] } }],
      })),
      {
        handle: [
          { handler: 'copy_response_headers', exclude: [name, length] },
          {
            handler: 'headers',
            request: { delete: evaluated },
            response: {
              deferred: true,
              // of an encoded file Caddy would leave out the length; what passes through it otherwise has `Via` instead of `Server`
              set: {
                'Content-Length': [value(length)],
                Via: ['1.1 Caddy'],
                ...Object.fromEntries(ofFileServer.map((header) => [header, [value(header)]])),
              },
              delete: ['Last-Modified', 'Server'],
            },
          },
          { handler: 'rewrite', uri: `/${value(name)}` },
          { handler: 'timeouts', write_timeout: stalledMs * nanosecondsOfMs },
          { handler: 'file_server', root: objectsIn(fileURLToPath(storage.url)), canonical_uris: false, index_names: [] },
        ],
      },
    ],
  }
}
