import { chmod, copyFile, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { execa } from 'execa'
import { ConfigError, loadConfig } from '../config.ts'
import { copyTree, exists, savedSecrets } from './backup-folder.ts'
import { claimDataDir } from './data-dir.ts'
import { claimReachableFolder } from './place.ts'
import { markRestored } from './restored.ts'
import { serviceUser } from './service-user.ts'

const usage = `Puts a backup of npm run backup into a new data directory; npm start then goes on with it.

  PLINTH_DATA_DIR=<new data directory> npm run restore -- <folder of the backup>`

/** `npm run restore`. The database gets its name last, so that a restore that was broken off is seen and can be repeated. */
async function restore(backup: string): Promise<string> {
  if (!(await exists(join(backup, 'postgres', 'backup_label')))) {
    throw new ConfigError(`${backup} is not a backup of npm run backup`)
  }
  const { dataDir, storage } = loadConfig()
  await using claimed = await claimDataDir(dataDir)
  const place = await claimReachableFolder(dataDir, claimed.id, () => undefined)
  const postgres = join(place, 'postgres')
  if (await exists(postgres)) throw new ConfigError(`${dataDir} has a database already: name a new folder with PLINTH_DATA_DIR`)
  for (const name of savedSecrets) {
    if (!(await exists(join(backup, name)))) continue
    await copyFile(join(backup, name), join(dataDir, name))
    await chmod(join(dataDir, name), 0o600)
  }
  await copyTree(join(backup, 'caddy'), join(dataDir, 'caddy'))
  await copyTree(join(backup, 'cas'), fileURLToPath(storage.url))
  const partial = `${postgres}.restored`
  await rm(partial, { recursive: true, force: true })
  await copyTree(join(backup, 'postgres'), partial)
  // the copy lacks the empty folders' content, and the server insists on who owns it
  const user = await serviceUser()
  if (user) await execa('chown', ['-R', `${user.uid}:${user.gid}`, partial])
  await markRestored(dataDir)
  await rename(partial, postgres)
  return dataDir
}

const [folder] = process.argv.slice(2)
try {
  if (folder === undefined) throw new ConfigError(usage)
  process.stdout.write(`${await restore(resolve(folder))} is restored; start it with npm start\n`)
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`)
  process.exitCode = 1
}
