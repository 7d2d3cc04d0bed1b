import { readFile, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { execa } from 'execa'

export interface ServiceUser {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

/**
 * The user that programs which refuse root run as: undefined when this process is not root, else `plinth`, else `postgres`,
 * else a new system user `plinth`.
 */
export async function serviceUser(): Promise<ServiceUser | undefined> {
  if (process.getuid?.() !== 0) return undefined
  const found = (await findUser('plinth')) ?? (await findUser('postgres'))
  if (found) return found
  await execa('useradd', ['--system', '--no-create-home', '--shell', '/usr/sbin/nologin', 'plinth'])
  const made = await findUser('plinth')
  if (!made) throw new Error('useradd made no user plinth: PostgreSQL does not run as root and needs one')
  return made
}

async function findUser(name: string): Promise<ServiceUser | undefined> {
  const line = (await readFile('/etc/passwd', 'utf8')).split('\n').find((line) => line.startsWith(`${name}:`))
  const [, , uid, gid] = line?.split(':') ?? []
  return line === undefined ? undefined : { name, uid: Number(uid), gid: Number(gid) }
}

/** Whether every user may pass through the folder and all of its parents. A folder that does not exist yet is judged by its parent. */
export async function isSearchableByAll(dir: string): Promise<boolean> {
  const mode = await stat(dir).then(
    ({ mode }) => mode,
    () => 0o001,
  )
  if ((mode & 0o001) === 0) return false
  const parent = dirname(dir)
  return parent === dir || isSearchableByAll(parent)
}
