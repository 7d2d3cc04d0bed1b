import { copyFile, mkdir, readFile, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { execa } from 'execa'
import { type Config, ConfigError, loadConfig } from '../config.ts'
import { copyTree, exists, savedFolders, savedSecrets } from './backup-folder.ts'
import { copyServer } from './backup-server.ts'
import { reachableFolder } from './place.ts'
import { runningPostgresUrl } from './postgres.ts'

const usage = `Copies everything that has to be kept into a new folder, while Plinth runs and deploys.

  npm run backup -- <new folder>`

/** `npm run backup`. The folder appears when it is complete; one that was broken off is called `<folder>.partial`. */
async function backUp(target: string): Promise<string> {
  const config = loadConfig()
  if (await exists(target)) throw new ConfigError(`${target} exists already: name a new folder`)
  const partial = `${target}.partial`
  await rm(partial, { recursive: true, force: true })
  await mkdir(partial, { recursive: true, mode: 0o700 })
  const postgres = await embeddedPostgres(config)
  // the rest after the database: the storage then holds all that the database names
  await copyServer(postgres, join(partial, 'postgres'), () => copyRest(config, partial))
  // everything is on the disk before the folder has its name
  await execa('sync', ['--file-system', partial])
  await rename(partial, target)
  return target
}

async function embeddedPostgres({ dataDir, database }: Config) {
  if (database.url !== undefined) {
    throw new ConfigError(
      'PLINTH_DATABASE_URL is set: back up that server with its own tools first, then copy the folder of the storage',
    )
  }
  const dir = join(await reachableFolder(dataDir), 'postgres')
  const url = await runningPostgresUrl(dir)
  if (url === undefined) throw new ConfigError(`Plinth does not run in ${dataDir}; start it first with npm start`)
  return { dir, url }
}

async function copyRest({ dataDir, storage }: Config, partial: string): Promise<void> {
  for (const name of savedSecrets) if (await exists(join(dataDir, name))) await copyFile(join(dataDir, name), join(partial, name))
  const folders = { cas: fileURLToPath(storage.url), caddy: join(dataDir, 'caddy') }
  for (const name of savedFolders) await copyTree(folders[name], join(partial, name))
}

const [folder] = process.argv.slice(2)
try {
  if (folder === undefined) throw new ConfigError(usage)
  const startedAt = performance.now()
  const made = await backUp(resolve(folder))
  const { version } = JSON.parse(await readFile(join(import.meta.dirname, '../../package.json'), 'utf8')) as { version: string }
  process.stdout.write(
    `${made} holds everything of Plinth ${version}, after ${((performance.now() - startedAt) / 1000).toFixed(1)} s\n`,
  )
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`)
  process.exitCode = 1
}
