import createFetchClient from 'openapi-fetch'
import type { paths } from './schema.ts'

export interface ClientOptions {
  /** Address of an installation, such as `http://localhost:8080`. */
  readonly baseUrl: string
  /** A project key. */
  readonly key: string
}

/**
 * A client of the REST interface whose paths, inputs and answers are checked by the compiler:
 * `client.GET('/api/v1/sites/{site_id}', { params: { path: { site_id } } })` answers `{ data, error, response }`.
 * What is no JSON, such as an export or a stream of events, is read with `parseAs: 'text'` or `'stream'`.
 */
export function createClient({ baseUrl, key }: ClientOptions) {
  return createFetchClient<paths, 'application/json'>({ baseUrl, headers: { authorization: `Bearer ${key}` } })
}
