import { createHash } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Route } from '../infra/db/routes.ts'
import type { Logger } from '../infra/log.ts'

const kept = 3
const format = 'plinth-routes-1'
const numbered = /^routes-(\d{12})\.json$/
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

/**
 * Routes on disk, so that an edge which starts without PostgreSQL knows them. A file is a line with the checksum and a line
 * of JSON, written whole or not at all; the last three are kept.
 */
export async function openSnapshots(dir: string, log: Logger) {
  await mkdir(dir, { recursive: true })
  const newestFirst = async () =>
    (await readdir(dir))
      .filter((name) => numbered.test(name))
      .sort()
      .toReversed()

  return {
    /** The newest sound snapshot; empty when there is none. A broken one is put aside as `.bad`. */
    async load(): Promise<Route[]> {
      for (const name of await newestFirst()) {
        const routes = parse(await readFile(join(dir, name), 'utf8'))
        if (routes) return routes
        await rename(join(dir, name), join(dir, `${name}.bad`))
        log.error({ file: name }, 'broken route snapshot put aside')
      }
      return []
    },

    async save(routes: readonly Route[]): Promise<void> {
      const body = JSON.stringify(routes)
      const before = await newestFirst()
      const number = Number(numbered.exec(before[0] ?? '')?.[1] ?? 0) + 1
      const temporary = join(dir, 'routes.tmp')
      await writeDurably(temporary, `${format} ${sha256(body)}\n${body}\n`)
      await rename(temporary, join(dir, `routes-${String(number).padStart(12, '0')}.json`))
      await flush(dir)
      for (const name of before.slice(kept - 1)) await rm(join(dir, name), { force: true })
    },
  }
}

/** What files of earlier versions do not have. */
const later = { previews: [], former: [], domains: [] }

function parse(text: string): Route[] | undefined {
  const [header, body = '', end, ...more] = text.split('\n')
  if (header !== `${format} ${sha256(body)}` || end !== '' || more.length > 0) return undefined
  const routes = JSON.parse(body) as (Omit<Route, keyof typeof later> & Partial<Route>)[]
  return routes.map((route) => ({ ...later, ...route }))
}

async function writeDurably(path: string, text: string): Promise<void> {
  const file = await open(path, 'w', 0o600)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
}

async function flush(dir: string): Promise<void> {
  const folder = await open(dir, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
