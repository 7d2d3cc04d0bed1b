import { cp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { startServer } from '../child-server.ts'
import { wrk } from './load.ts'
import type { MeasuredServer, Place } from './servers.ts'

const sets = [
  { fixed: 0, dynamic: 0 },
  { fixed: 9, dynamic: 1 },
  { fixed: 2000, dynamic: 100 },
]

/** The edge alone with no rule, with ten, and with as many as a site may have. The last rule answers `/archive/…`. */
export async function startRuleServers({ files, dir, stack }: Place): Promise<MeasuredServer[]> {
  const servers: MeasuredServer[] = []
  for (const { fixed, dynamic } of sets) {
    const folder = join(dir, `rules-${fixed}`)
    await cp(files, folder, { recursive: true })
    const lines = [
      ...Array.from({ length: fixed }, (_, at) => `/old/page-${at} /new/page-${at}`),
      ...Array.from({ length: Math.max(0, dynamic - 1) }, (_, at) => `/archive/:year/:month/part-${at}/* /part-${at}/:splat`),
      ...(dynamic > 0 ? ['/archive/* /blog/:splat'] : []),
    ]
    if (lines.length > 0) await writeFile(join(folder, '_redirects'), lines.join('\n'))
    const server = stack.use(
      await startServer(join(import.meta.dirname, 'plinth-server.ts'), folder, join(dir, `rules-${fixed}.sock`)),
    )
    servers.push({ name: `${fixed + dynamic} rules`, http: server.port })
  }
  return servers
}

/** A request that no file and, without rules, only the fallback answers. */
export const ruleCase = {
  name: 'last dynamic rule',
  measure: ({ http }: MeasuredServer, seconds: number) => wrk(http, '/archive/2024/05/a-title', [], seconds),
}
