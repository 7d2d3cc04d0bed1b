import type { LookupFunction } from 'node:net'
import { Agent, fetch } from 'undici'

export interface Read {
  readonly status: number
  readonly body: string
}

/** A page of a stranger in a browser on this machine, whose name now resolves to an address and port of ours: all of it is of its own origin. */
export interface ReboundPage extends AsyncDisposable {
  /** As the page reads it; undefined when the browser refuses the port, or the answer is no HTTP. */
  read(path: string): Promise<Read | undefined>
  /** Takes the token that the Temporal UI gives to its own pages, and asks it to end a workflow. */
  terminate(workflowId: string): Promise<Read | undefined>
}

/** `fetch` refuses the ports that browsers refuse (Fetch standard, "port blocking"). */
export function openReboundPage(host: string, port: number): ReboundPage {
  const lookup: LookupFunction = (_name, { all }, found) => {
    const family = host.includes(':') ? 6 : 4
    if (all) found(null, [{ address: host, family }])
    else found(null, host, family)
  }
  const dispatcher = new Agent({ connect: { lookup } })
  const origin = `http://rebound.example:${port}`

  async function ask(path: string, init: { method?: string; headers?: Record<string, string>; body?: string } = {}) {
    try {
      const answer = await fetch(origin + path, { ...init, dispatcher, redirect: 'manual', signal: AbortSignal.timeout(5000) })
      return { status: answer.status, body: await answer.text(), cookie: answer.headers.get('set-cookie') ?? '' }
    } catch {
      return undefined
    }
  }

  return {
    read: (path) => ask(path),
    async terminate(workflowId) {
      const token = /_csrf=([^;]*)/.exec((await ask('/api/v1/cluster-info'))?.cookie ?? '')?.[1] ?? ''
      const headers = { origin, 'content-type': 'application/json', 'x-csrf-token': token, cookie: `_csrf=${token}` }
      const path = `/api/v1/namespaces/default/workflows/${encodeURIComponent(workflowId)}/terminate`
      return await ask(path, { method: 'POST', headers, body: JSON.stringify({ reason: 'a page did it' }) })
    },
    [Symbol.asyncDispose]: () => dispatcher.destroy(),
  }
}
