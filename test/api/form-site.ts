import { expectDocumented } from '../contract.ts'
import { makeSite } from '../make.ts'
import type { Answer, TestProject, World } from '../world.ts'

export interface PostOptions {
  /** `null` sends none. */
  readonly origin?: string | null
  /** Another one for each post when absent. */
  readonly address?: string
  readonly type?: string
  readonly accept?: string
  readonly headers?: Record<string, string>
  readonly base?: string
}

/** A site whose form endpoint takes posts. */
export interface FormSite {
  readonly id: string
  readonly url: string
  readonly subdomain: string
  readonly form_endpoint: string
  /** Sends JSON, or bytes of the type. */
  post(body: unknown, options?: PostOptions): Promise<Answer>
}

let addresses = 0

/** An address that has sent nothing yet. */
export function newAddress(): string {
  addresses += 1
  return `10.${addresses >> 16}.${(addresses >> 8) & 255}.${addresses & 255}`
}

export async function makeFormSite(w: World, project: TestProject): Promise<FormSite> {
  const site = await makeSite(w, project)
  return {
    ...site,
    async post(body, options = {}) {
      const { origin = site.url, address = newAddress(), type = 'application/json', accept, headers, base = w.base } = options
      const isRaw = typeof body === 'string' || body instanceof Uint8Array || body instanceof FormData
      const response = await fetch(`${base}/f/${site.id}`, {
        method: 'POST',
        redirect: 'manual',
        headers: {
          'x-forwarded-for': address,
          ...(body instanceof FormData ? {} : { 'content-type': type }),
          ...(origin === null ? {} : { origin }),
          ...(accept === undefined ? {} : { accept }),
          ...headers,
        },
        body: isRaw ? (body as string) : JSON.stringify(body),
      })
      const text = await response.text()
      const isJson = response.headers.get('content-type')?.startsWith('application/json')
      const answer = { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text }
      expectDocumented('POST', `/f/${site.id}`, answer)
      return answer
    },
  }
}
