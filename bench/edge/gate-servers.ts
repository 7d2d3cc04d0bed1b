import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { anybody, createVisits } from '../../infra/crypto/visits.ts'
import { startServer } from '../child-server.ts'
import { benchKey } from './key.ts'
import { host } from './load.ts'
import type { MeasuredServer, Place } from './servers.ts'

const hour = 3_600_000

/** The edge alone with an open site, and with the same site closed, whose visitors have a cookie. */
export async function startGateServers({ files, dir, stack }: Place): Promise<MeasuredServer[]> {
  const program = join(import.meta.dirname, 'plinth-server.ts')
  const epoch = randomUUID()
  const open = stack.use(await startServer(program, files, join(dir, 'open.sock')))
  const closed = stack.use(await startServer(program, files, join(dir, 'closed.sock'), '', epoch))
  const visit = createVisits(benchKey).issue(
    { site_id: 'bench', host, epoch },
    { subject: anybody, generation: 0, consent: 0, until: new Date(Date.now() + hour) },
  )
  const headers = [`Cookie: svc_s=${visit}`]
  return [
    // the same headers, so that only the gate differs
    { name: 'open', http: open.port, headers },
    { name: 'closed, with a visit', http: closed.port, headers },
  ]
}
