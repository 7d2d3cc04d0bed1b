import { join } from 'node:path'
import { openDatabase } from '../../infra/db/database.ts'
import { migrate } from '../../infra/db/migrate.ts'
import { startPostgres } from '../../infra/local/postgres.ts'
import { type MeasuredServer, type Place, startBehindCaddy } from './servers.ts'

/** What a browser sends, all of which is counted. */
const headers = [
  'User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36',
  'Accept-Language: ru-RU,ru;q=0.9',
  'Referer: https://news.example/item?id=1',
  'X-Forwarded-For: 192.0.2.1',
]

/** The edge, and one that counts what it answers, by its thread into PostgreSQL: on their own, and behind Caddy as they run. */
export async function startTrafficServers(place: Place): Promise<MeasuredServer[]> {
  const program = join(import.meta.dirname, 'plinth-server.ts')
  const { url } = place.stack.use(await startPostgres({ dir: join(place.dir, 'postgres'), log: () => undefined }))
  const servers = [
    ...(await startBehindCaddy(place, 'not counted', program)),
    ...(await startBehindCaddy(place, 'counted', program, ['', url, await makeSite(url)])),
  ]
  return servers.map((server) => ({ ...server, headers }))
}

async function makeSite(url: string): Promise<string> {
  await using opened = openDatabase(url)
  const { db } = opened
  await migrate(db)
  const owner = { name: 'bench', owner_email: 'bench@plinth.test', plan: 'pro' } as const
  const project = await db.insertInto('projects').values(owner).returning('id').executeTakeFirstOrThrow()
  const site = { project_id: project.id, name: 'bench', subdomain: 'bench' }
  return (await db.insertInto('sites').values(site).returning('id').executeTakeFirstOrThrow()).id
}
