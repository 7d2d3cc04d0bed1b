import type { Command } from '../core/build-plan.ts'
import type { StopCause } from './sandbox.ts'

export interface Failure {
  readonly command: Command
  /** Undefined when a signal from outside ended it. */
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
  const name = command.join(' ')
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
    case undefined:
  }
  const how = code === undefined ? 'was ended by a signal' : `failed with exit code ${code}`
  const hint = hints.find(([pattern]) => pattern.test(log.slice(-hintCharacters)))?.[1]
  return hint ? `${name} ${how}: ${hint.replace('{memory}', memory)}` : `${name} ${how}`
}

const hintCharacters = 20_000

const hints: readonly [RegExp, string][] = [
  [
    /can only install (?:packages )?(?:with an existing|when your package\.json)|EUSAGE/,
    'package-lock.json does not match package.json; run npm install, and send the new package-lock.json too',
  ],
  [
    /JavaScript heap out of memory|Cannot allocate memory|ENOMEM/,
    'it ran out of memory, a build has {memory}; make it need less, or ask the operator for more (PLINTH_BUILD_MEMORY)',
  ],
  [/ENOSPC/, 'it ran out of space; /tmp holds 512 MB, the folder of the build 2 GB'],
  [/EAGAIN|Resource temporarily unavailable/, 'it started more processes than a build may have'],
  [/^blocked: /m, 'it tried to reach what builds may not, see the lines that start with "blocked:"'],
  [/E404|npm error 404/, 'a package was not found in the registry; check its name and version in package.json'],
  [/: not found|command not found/, 'a program is missing; add its package to the dependencies in package.json'],
]

function duration(ms: number): string {
  return ms % 60_000 === 0 ? `${ms / 60_000} minutes` : `${ms / 1000} seconds`
}
