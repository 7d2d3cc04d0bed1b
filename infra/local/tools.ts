import { access, constants, mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { execa, type Options } from 'execa'
import { ConfigError } from '../config.ts'
import { downloadRelease, type Release, releases } from './releases.ts'

export type ToolName = keyof typeof tools

export interface FindToolOptions {
  /** Where fetched and built tools are kept; safe to share between starts that run at once. */
  readonly cacheDir: string
  /** Called with one line before and after each slow step. */
  readonly report: (line: string) => void
  /** Folders that are searched first, as in the variable PATH. */
  readonly path?: string | undefined
  readonly signal?: AbortSignal | undefined
}

interface Tool {
  readonly title: string
  readonly versionArgs: readonly string[]
  /** The version that matters to us, in what the program prints. */
  readonly versionPattern: RegExp
  readonly minimum: string
  /** What is kept in the cache under this name, so that a newer pin is fetched anew. */
  readonly pinned: string
  readonly ways: readonly Way[]
  readonly installHint: string
}

/** Runs a command with the caller's PATH and until the caller gives up. */
type Run = (program: string, args: readonly string[], options?: Options) => Promise<unknown>

/** One way to get a tool. */
interface Way {
  readonly way: string
  readonly usual: string
  /** Leaves the program in the folder under its own name. */
  readonly make: (into: string, run: Run) => Promise<unknown>
}

const release = (pinned: Release): Way => ({
  way: 'the official release',
  usual: 'a few seconds',
  make: (into) => downloadRelease(pinned, into),
})

const goInstall = (goPackage: string, usual: string): Way => ({
  way: `go install ${goPackage}`,
  usual,
  make: (into, run) =>
    run('go', ['install', '-trimpath', '-ldflags=-s -w', goPackage], { env: { GOBIN: into, CGO_ENABLED: '0' } }),
})

const debianPackage = (name: string, program: string): Way => ({
  way: `apt-get download ${name}`,
  usual: 'a few seconds',
  make: async (into, run) => {
    await run('apt-get', ['download', name], { cwd: into })
    const unpack = `dpkg-deb -x ${name}_*.deb unpacked && mv unpacked/${program} . && rm -r unpacked ${name}_*.deb`
    await run('/bin/sh', ['-c', unpack], { cwd: into })
  },
})

const tools = {
  temporal: {
    title: 'Temporal CLI',
    versionArgs: ['--version'],
    versionPattern: /Server (\d+\.\d+\.\d+)/,
    minimum: '1.29.0',
    pinned: '1.5.1',
    ways: [release(releases.temporal), goInstall('github.com/temporalio/cli/cmd/temporal@v1.5.1', 'three minutes')],
    installHint: 'https://docs.temporal.io/cli',
  },
  caddy: {
    title: 'Caddy',
    versionArgs: ['version'],
    versionPattern: /^v?(\d+\.\d+\.\d+)/,
    // older ones match host names case-sensitively and take admin requests from web pages
    minimum: '2.11.1',
    pinned: '2.11.9',
    ways: [release(releases.caddy), goInstall('github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9', 'one to two minutes')],
    installHint: 'https://caddyserver.com/docs/install',
  },
  bwrap: {
    title: 'bubblewrap',
    versionArgs: ['--version'],
    versionPattern: /\b(\d+\.\d+\.\d+)/,
    minimum: '0.5.0',
    pinned: 'debian',
    ways: [debianPackage('bubblewrap', 'usr/bin/bwrap')],
    installHint: 'the package bubblewrap of your distribution',
  },
  // the certificate authority and the name server of tests; nothing that is started needs them
  pebble: {
    title: 'Pebble',
    versionArgs: ['-version'],
    versionPattern: /\bv?(\d+\.\d+\.\d+)/,
    minimum: '2.8.0',
    pinned: '2.10.1',
    ways: [goInstall('github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1', 'ten seconds')],
    installHint: 'https://github.com/letsencrypt/pebble',
  },
  'pebble-challtestsrv': {
    title: 'the challenge test server of Pebble',
    versionArgs: ['-h'],
    // it prints no version, so that none of the PATH is taken
    versionPattern: /^(\d+\.\d+\.\d+)$/,
    minimum: '2.8.0',
    pinned: '2.10.1',
    ways: [goInstall('github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv@v2.10.1', 'ten seconds')],
    installHint: 'https://github.com/letsencrypt/pebble',
  },
} satisfies Record<string, Tool>

/**
 * Finds a program: on the PATH when its version fits, in the cache, as the official release, built with Go, or from Debian's archive.
 * @returns its absolute path
 * @throws ConfigError that names everything that was tried
 */
export async function findTool(name: ToolName, options: FindToolOptions): Promise<string> {
  const tool: Tool = tools[name]
  const tried: string[] = []
  const installed = await onPath(name, tool, options, tried)
  if (installed !== undefined) return installed

  const folder = join(options.cacheDir, `${name}-${tool.pinned}-${process.platform}-${process.arch}`)
  const cached = join(folder, name)
  if (await isExecutable(cached)) return cached

  const run: Run = (program, args, own = {}) =>
    execa(program, args, {
      ...own,
      env: { ...own.env, ...(options.path !== undefined && { PATH: options.path }) },
      ...(options.signal && { cancelSignal: options.signal }),
    })
  for (const { way, usual, make } of tool.ways) {
    options.report(`${tool.title}: trying ${way} (usually ${usual})`)
    const startedAt = performance.now()
    const temporary = `${folder}.${process.pid}.new`
    try {
      await rm(temporary, { recursive: true, force: true })
      await mkdir(temporary, { recursive: true })
      await make(temporary, run)
      await execa(join(temporary, name), tool.versionArgs)
      await keep(temporary, folder)
      options.report(`${tool.title}: done in ${Math.round((performance.now() - startedAt) / 1000)} s`)
      return cached
    } catch (error) {
      options.signal?.throwIfAborted()
      tried.push(`${way}: ${firstLine(error)}`)
      options.report(`${tool.title}: ${tried.at(-1)}`)
    } finally {
      await rm(temporary, { recursive: true, force: true })
    }
  }
  throw new ConfigError(
    `${tool.title} is missing. Tried:\n${tried.map((line) => `  ${line}`).join('\n')}\nInstall ${name} ${tool.minimum} or newer (${tool.installHint}) and start again.`,
  )
}

async function onPath(name: string, tool: Tool, { path, report }: FindToolOptions, tried: string[]): Promise<string | undefined> {
  const environment = path === undefined ? {} : { env: { PATH: path } }
  const { stdout: file } = await execa('/bin/sh', ['-c', `command -v ${name}`], { ...environment, reject: false })
  if (!file) {
    tried.push(`PATH: no ${name}`)
    return undefined
  }
  const { stdout } = await execa(file, tool.versionArgs, { reject: false, timeout: 10_000 })
  const version = tool.versionPattern.exec(stdout)?.[1]
  if (version !== undefined && isAtLeast(version, tool.minimum)) {
    report(`${tool.title} ${version}: ${file}`)
    return file
  }
  tried.push(`PATH: ${file} is version ${version ?? 'unknown'}, needed is ${tool.minimum} or newer`)
  return undefined
}

/** Another start may have put the same tool there meanwhile: either will do. */
async function keep(temporary: string, folder: string): Promise<void> {
  try {
    await rename(temporary, folder)
  } catch (error) {
    if (!['ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

/** Compares versions of the form `1.2.3`. */
export function isAtLeast(version: string, minimum: string): boolean {
  return version.localeCompare(minimum, 'en', { numeric: true }) >= 0
}

const isExecutable = (file: string) =>
  access(file, constants.X_OK).then(
    () => true,
    () => false,
  )

function firstLine(error: unknown): string {
  const { shortMessage, stderr, message } = error as { shortMessage?: string; stderr?: string; message: string }
  const detail = stderr?.trim().split('\n').at(-1)
  return [shortMessage ?? message.split('\n')[0], detail].filter(Boolean).join(': ')
}
