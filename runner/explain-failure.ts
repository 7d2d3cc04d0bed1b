import { type Command, commandText } from '../core/build-plan.ts'
import type { StopCause } from './sandbox/sandbox.ts'

export interface Failure {
  readonly command: Command
  /** Undefined when a signal ended it. */
  readonly code: number | undefined
  readonly stopped: StopCause | undefined
  /** The build log. */
  readonly log: string
  readonly memoryBytes: number
  readonly timeoutMs: number
}

const shownLines = 20
const shownCharacters = 300

/** The text of a failed deploy: what went wrong, what to do where that is known, and the last lines of the log. */
export function explainFailure(failure: Failure): string {
  const lines = failure.log.trimEnd().split('\n').slice(-shownLines)
  const shown = lines.map((line) => (line.length > shownCharacters ? `${line.slice(0, shownCharacters).toWellFormed()}…` : line))
  return [reasonOf(failure), '', ...shown].join('\n').trimEnd()
}

function reasonOf({ command, code, stopped, log, memoryBytes, timeoutMs }: Failure): string {
  const name = commandText(command)
  const memory = `${Math.floor(memoryBytes / 1024 / 1024)} MB`
  switch (stopped) {
    case 'time':
      return `${name} was stopped because the build took longer than ${duration(timeoutMs)}; make the build faster, or look for a command that waits or watches`
    case 'disk':
      return `${name} was stopped because the build wrote more than 2 GB or 200,000 files; write less, and only what the site needs`
    case 'output':
      return `${name} was stopped because it wrote more than 1 GB of output; print less`
    case 'memory':
      return `${name} ran out of memory: a build has ${memory}; make it need less, or ask the operator for more (PLINTH_BUILD_MEMORY)`
    case 'thrashing':
      return `${name} was stopped because it stood at its memory limit for 10 seconds without getting on: a build has ${memory}; make it need less, or ask the operator for more (PLINTH_BUILD_MEMORY)`
    case undefined:
  }
  const how = code === undefined ? 'was ended by a signal' : `failed with exit code ${code}`
  const hint = hints.find(([pattern]) => pattern.test(log.slice(-hintCharacters)))?.[1]
  return hint ? `${name} ${how}: ${hint.replace('{memory}', memory)}` : `${name} ${how}`
}

const hintCharacters = 20_000

/** The first match is used, so certain causes come before likely ones. */
const hints: readonly [RegExp, string][] = [
  [
    /can only install (?:packages )?(?:with an existing|when your package\.json)|EUSAGE/,
    'package-lock.json does not match package.json; run npm install, and send the new package-lock.json too',
  ],
  [
    /ERR_PNPM_(?:OUTDATED_LOCKFILE|LOCKFILE_CONFIG_MISMATCH|LOCKFILE_MISSING_DEPENDENCY)/,
    'pnpm-lock.yaml does not match package.json; run pnpm install, and send the new pnpm-lock.yaml too',
  ],
  [
    /Your lockfile needs to be updated|The lockfile would have been (?:modified|created) by this install/,
    'yarn.lock does not match package.json; run yarn install, and send the new yarn.lock too',
  ],
  [
    /EINTEGRITY|ERR_PNPM_TARBALL_INTEGRITY|doesn't match the expected checksum|Integrity check failed/,
    'a package is not the one that the lock file names; remove the lock file, install again and send the new one',
  ],
  [
    /JavaScript heap out of memory|Cannot allocate memory|ENOMEM|^Killed$/m,
    'it ran out of memory, a build has {memory}; make it need less, or ask the operator for more (PLINTH_BUILD_MEMORY)',
  ],
  [/ENOSPC/, 'it ran out of space; /tmp holds 512 MB, the folder of the build 2 GB'],
  [/EAGAIN|Resource temporarily unavailable/, 'it started more processes than a build may have'],
  [
    /Your pnpm version is incompatible|The engine "(?:yarn|npm|pnpm)" is incompatible|"(?:npm|pnpm|yarn)" [^"\n]*Not compatible with your version/,
    'package.json asks for another version of its package manager in "engines"; the lock file decides which one runs, so leave that out',
  ],
  [
    /npm error (?:code EBADENGINE|notsup )|Your Node version is incompatible|The engine "node" is incompatible|(?:requires?|For Next\.js,|Minimum) Node(?:\.js)? [Vv]ersion|Node\.js v?[\d.]+ is not supported|requires Node(?:\.js)? (?:>=|v?\d)|Unsupported (?:Node\.js )?engine/,
    'it needs another version of Node; write the one that it needs (18, 20, 22 or 24) into a file .nvmrc beside package.json',
  ],
  [
    /Cannot read properties of null \(reading 'edgesOut'\)/,
    'the npm of this Node cannot work out which packages fit; send a package-lock.json too, or write 24 into a file .nvmrc beside package.json',
  ],
  [
    /NoAdapterInstalled|Cannot use server-rendered pages without an adapter/,
    "Astro is set to write a server, which is not run here; remove output: 'server' and prerender = false",
  ],
  [
    /next export[`"'] (?:command )?has been removed/,
    "Next.js writes static files with output: 'export' in next.config; set it, and run next build only",
  ],
  [
    /binary with name "go" not found/,
    'Hugo fetches its modules with Go, which builds do not have; run hugo mod vendor, and send the folder _vendor too',
  ],
  [
    /module "[^"\n]{1,200}" not found in|theme [^\n]{1,200} not found/i,
    'the theme of the site is missing; send its files in the folder themes too, submodules included',
  ],
  [
    /No matching distribution found for|Could not find a version that satisfies the requirement/,
    'a package of requirements.txt was not found, or not for the Python of this server; check its name and version',
  ],
  [
    /Unrecognised theme name:|The "[^"\n]{1,200}" plugin is not installed/,
    'a theme or plugin of mkdocs.yml is missing; name its package in a file requirements.txt, beside mkdocs',
  ],
  [
    /Failed building wheel|Failed to build installable wheels/,
    'a package of requirements.txt is compiled at its install, and builds have no compiler; use a version of it that is published as a wheel',
  ],
  [/mkdocs cannot be started/, 'requirements.txt does not name mkdocs; add it there'],
  [/^blocked: /m, 'it tried to reach what builds may not, see the lines that start with "blocked:"'],
  [
    /gyp ERR! (?:find Python|stack Error: not found: make|build error|configure error)|node-gyp|: (?:make|g\+\+|python3?): not found/,
    'a package is compiled at its install, and builds have no compiler; use a version of it that is published for Linux and this Node',
  ],
  [
    /E404|npm error 404|ERR_PNPM_FETCH_404|Package not found|YN0035/,
    'a package was not found in the registry; check its name and version in package.json',
  ],
  [
    /ERESOLVE/,
    'packages ask for versions of each other that do not fit; run npm install, mend what it says, and send the new package-lock.json too',
  ],
  [
    /Missing script: |ERR_PNPM_NO_SCRIPT|error Command "[^"]*" not found|Couldn't find a script named/,
    'a script calls another that package.json does not have; add it to "scripts"',
  ],
  [
    /ENETUNREACH|EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ETIMEDOUT|ECONNRESET|ERR_SOCKET_TIMEOUT/,
    'it could not reach a host; builds reach public hosts by https and the proxy in HTTPS_PROXY only',
  ],
  [/: not found|command not found/, 'a program is missing; add its package to the dependencies in package.json'],
  [
    /Cannot find (?:module|package) '(?!\.)|Could not resolve "(?!\.)|ERR_MODULE_NOT_FOUND/,
    'a package is missing; add it to the dependencies in package.json, and send the new lock file too',
  ],
]

function duration(ms: number): string {
  return ms % 60_000 === 0 ? `${ms / 60_000} minutes` : `${ms / 1000} seconds`
}
