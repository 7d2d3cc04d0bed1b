import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { lstat, readlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { unavailable } from '../../core/errors.ts'
import type { Config } from '../config.ts'
import type { Logger } from '../log.ts'

export interface ConfinementOptions extends Pick<Config, 'dataDir'>, Pick<Config['build'], 'bwrap' | 'sandbox'> {
  readonly log: Logger
}

/** How programs of ours run whose native code reads a stranger's bytes: without network, files, privileges and other processes. */
export interface Confinement {
  /** The user that a program has to become before it reads anything; undefined when this process is not root. */
  readonly uid: number | undefined
  /**
   * Starts Node with arguments, and nothing of this process but these. Its output is for the caller, and so is its end.
   * @throws AppError `unavailable` where bubblewrap does not work and the operator has not allowed to go without it
   */
  start(nodeArguments: readonly string[]): Promise<ConfinedProcess>
}

export type ConfinedProcess = ChildProcessByStdio<Writable, Readable, null>

/**
 * Limits all writable memory, of which V8 reserves more than half without using it, processor time, files and open files, in KiB, seconds, blocks
 * and number. A system without one of these limits starts the process without it.
 */
const limits = ['-d 1048576', '-t 10', '-f 0', '-n 64'].map((limit) => `ulimit ${limit} 2>/dev/null`)
/** Node has eleven threads. They are counted per user, so only one that runs nothing else can have a limit; dash names it -p, where bash has -u. */
const processLimit = '{ ulimit -u 64 || ulimit -p 64; } 2>/dev/null'

/** @param code the folder of our code: the sources, or their bundle */
export function openConfinement(code: string, { dataDir, bwrap, sandbox, log }: ConfinementOptions): Confinement {
  const isRoot = process.getuid?.() === 0
  const uid = isRoot ? imageUser(dataDir) : undefined
  const limited = ['ulimit -c 0', ...limits, ...(isRoot ? [processLimit] : []), 'exec "$0" "$@"'].join('; ')
  let works = false
  let isReported = false

  /** Tried again with each image until it works: a machine may have been too busy. */
  async function canIsolate(): Promise<boolean> {
    if (works) return true
    const problem = await tryBubblewrap()
    works = problem === undefined
    if (!works && !isReported) {
      isReported = true
      log.warn({ problem }, sandbox === 'required' ? 'images are refused' : 'images are decoded WITHOUT isolation')
    }
    return works
  }

  async function tryBubblewrap(): Promise<string | undefined> {
    const command = [bwrap, ...(await bubblewrapArguments(code, isRoot)), node, '--version']
    const child = spawn('/bin/sh', ['-c', limited, ...command], { ...nothing, stdio: ['ignore', 'ignore', 'pipe'] })
    const [said, [status]] = await Promise.all([text(child.stderr), once(child, 'exit')])
    return status === 0 ? undefined : said.trim().slice(0, 500)
  }

  return {
    uid,
    async start(nodeArguments) {
      const isIsolated = await canIsolate()
      if (!isIsolated && sandbox === 'required')
        throw unavailable('images are refused, because this machine cannot decode them in isolation; the log of the api says why')
      const command = isIsolated ? [bwrap, ...(await bubblewrapArguments(code, isRoot)), node] : [process.execPath]
      return spawn('/bin/sh', ['-c', limited, ...command, ...nodeArguments], { ...nothing, stdio: ['pipe', 'pipe', 'ignore'] })
    },
  }
}

/** Above those that fetch repositories, and below `nobody`. */
const firstUid = 63_300
const uids = 2000

/** Other data directories of this machine, and other processes on the same one, have another user. */
const imageUser = (dataDir: string) =>
  firstUid + (createHash('sha256').update(`${dataDir}\0${process.pid}`).digest().readUInt16BE(0) % uids)

/** Of this process for the other one. */
const nothing = { cwd: '/', env: {} }
/** Where Node is inside. */
const node = '/node'
/** The packages of Plinth, which a bundle of its code has not in its own folder. */
const packages = packagesAbove(createRequire(import.meta.url).resolve('sharp'))

function packagesAbove(file: string): string {
  const name = '/node_modules'
  return file.slice(0, file.lastIndexOf(`${name}/`) + name.length)
}

/**
 * The arguments of bubblewrap, up to the program. Inside are the libraries of the system, Node, our code and its packages, all of it read-only.
 * Root needs no user namespace, which some machines forbid, but the two capabilities with which the program gives root up.
 */
async function bubblewrapArguments(code: string, isRoot: boolean): Promise<string[]> {
  const words = (line: string) => line.split(' ')
  const show = (path: string, at = path) => ['--ro-bind-try', path, at]
  return [
    ...words('--unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup-try --new-session --die-with-parent'),
    ...words('--cap-drop ALL'),
    ...words(isRoot ? '--cap-add CAP_SETUID --cap-add CAP_SETGID' : '--unshare-user --disable-userns --uid 1000 --gid 1000'),
    ...['/usr/lib', '/usr/lib64', '/etc/ld.so.cache'].flatMap((path) => show(path)),
    ...(await libraryFolders()),
    ...show(packages),
    ...['core', 'infra', 'chunks', 'package.json'].flatMap((name) => show(join(code, name))),
    ...show(process.execPath, node),
    ...words('--remount-ro / --chdir / --'),
  ]
}

/** /lib and /lib64: links into /usr on current systems, folders on older ones. */
async function libraryFolders(): Promise<string[]> {
  const args: string[] = []
  for (const path of ['/lib', '/lib64']) {
    const stats = await lstat(path).catch(() => undefined)
    if (stats?.isSymbolicLink()) args.push('--symlink', await readlink(path), path)
    else if (stats?.isDirectory()) args.push('--ro-bind', path, path)
  }
  return args
}
