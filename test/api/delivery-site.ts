import { randomUUID } from 'node:crypto'
import { deliveryLink } from '../../services/autoreply/delivery-page.ts'
import { makeSite } from '../make.ts'
import type { Answer, CallOptions, TestProject, World } from '../world.ts'

/** A site with an auto-reply to which files are added. */
export interface DeliverySite {
  readonly id: string
  readonly url: string
  readonly subdomain: string
  /** `call('DELETE', 'page-logo')` */
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
  add(bytes: Uint8Array | string, query?: Readonly<Record<string, string>>, headers?: Record<string, string>): Promise<Answer>
  design(json: object): Promise<Answer>
  view(): Promise<any>
  /** A link as an email has it. @param from the beginning of its lifetime */
  link(from?: Date): Promise<string>
}

export async function makeDeliverySite(w: World, project: TestProject): Promise<DeliverySite> {
  const site = await makeSite(w, project)
  const call = (method: string, path: string, options: CallOptions = {}) =>
    w.call(`${method} /api/v1/sites/${site.id}/autoreply${path === '' ? '' : `/${path}`}`, { key: project.key, ...options })
  return {
    ...site,
    call,
    add(bytes, query = {}, headers) {
      const parameters = new URLSearchParams({ name: 'guide.txt', ...query })
      const sent = { bytes: Buffer.from(bytes), type: 'application/octet-stream', ...(headers && { headers }) }
      return call('POST', `files?${parameters.toString()}`, sent)
    },
    design: (json) => call('PUT', 'delivery', { json }),
    view: async () => (await call('GET', '')).body,
    async link(from = new Date()) {
      const { href } = await deliveryLink(w, site, randomUUID(), from)
      return href
    },
  }
}
