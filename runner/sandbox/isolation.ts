import { once } from 'node:events'
import { join } from 'node:path'
import type { Logger } from '../../infra/log.ts'
import { pause } from '../../infra/pause.ts'
import { replaceFile } from '../../infra/replace-file.ts'
import type { Cgroups } from './cgroup.ts'
import type { Tested } from './self-test.ts'

/**
 * The result of the self-test. `A`: isolated, each slot with a user of its own; `A'`: isolated, as the runner's user;
 * `B`: not isolated, only the user differs; `none`: not isolated.
 */
export interface SandboxStatus {
  readonly level: 'A' | "A'" | 'B' | 'none'
  /** The mechanism that enforces memory and process limits; with `none`, a watchdog checks them twice a second. */
  readonly cgroup: Cgroups['kind']
  /** Whether builds are run. */
  readonly builds: boolean
  /** Warnings for the operator, in full sentences. */
  readonly problems: readonly string[]
}

export interface Isolation extends AsyncDisposable {
  /** The result of the latest test. */
  readonly status: SandboxStatus
  /**
   * Resolves when a test has a result: usually at once, but later after a start on a machine that was too busy.
   * @throws Error when that takes longer than two minutes, or the reason of the signal
   */
  tested(signal: AbortSignal): Promise<void>
}

export interface IsolationOptions {
  /** Runs the self-test. */
  readonly test: (signal: AbortSignal) => Promise<Tested>
  /** The cgroups that enforce the limits of builds. */
  readonly cgroup: Cgroups['kind']
  readonly isRoot: boolean
  /** Whether the operator has allowed builds without isolation. */
  readonly allowsUnsafe: boolean
  /** Gets `status.json`. */
  readonly buildDir: string
  readonly log: Logger
}

const firstTestGapMs = 5000
const maxTestGapMs = 60_000
/** How long a build waits for a test of the isolation before it counts as a fault of the platform. */
const maxTestWaitMs = 120_000

/** Tests the isolation and publishes the result. A test without a result is repeated in the background. */
export async function openIsolation(options: IsolationOptions): Promise<Isolation> {
  const { log } = options
  const closed = new AbortController()
  let status: SandboxStatus
  let isKnown = await test()
  const testing = isKnown ? Promise.resolve() : testUntilKnown()

  return {
    get status() {
      return status
    },
    async tested(signal) {
      if (isKnown) return
      await Promise.race([testing, once(AbortSignal.any([signal, AbortSignal.timeout(maxTestWaitMs)]), 'abort')])
      signal.throwIfAborted()
      if (!isKnown) throw new Error(status.problems.join('; '))
    },
    async [Symbol.asyncDispose]() {
      closed.abort()
      await testing
    },
  }

  /** Returns whether the test has a result. */
  async function test(): Promise<boolean> {
    const tested = await options.test(closed.signal)
    status = statusOf(tested, options)
    await publishStatus(options.buildDir, status)
    logStatus(log, status, tested.isConclusive)
    return tested.isConclusive
  }

  async function testUntilKnown(): Promise<void> {
    for (let gapMs = firstTestGapMs; !isKnown; gapMs = Math.min(2 * gapMs, maxTestGapMs)) {
      await pause(gapMs, closed.signal)
      if (closed.signal.aborted) return
      isKnown = await test().catch((error: unknown) => {
        log.error({ err: error }, 'isolation not tested')
        return false
      })
    }
  }
}

function statusOf(
  { problems, isConclusive }: Tested,
  { cgroup, isRoot, allowsUnsafe }: Pick<IsolationOptions, 'cgroup' | 'isRoot' | 'allowsUnsafe'>,
): SandboxStatus {
  const isIsolated = problems.length === 0
  const isUnsafe = isConclusive && allowsUnsafe
  const unlimited = 'there are no cgroups to divide, so memory and process limits are only watched'
  return {
    level: isIsolated ? (isRoot ? 'A' : "A'") : isUnsafe && isRoot ? 'B' : 'none',
    cgroup,
    builds: isIsolated || isUnsafe,
    problems: cgroup === 'none' ? [...problems, unlimited] : problems,
  }
}

/** Whether builds at this level run in the sandbox. */
export const isIsolated = ({ level }: SandboxStatus): boolean => level === 'A' || level === "A'"

function logStatus(log: Logger, status: SandboxStatus, isConclusive: boolean): void {
  if (isIsolated(status)) log.info({ sandbox: status }, 'sandbox tested')
  else if (isConclusive) log.warn({ sandbox: status }, status.builds ? 'builds run WITHOUT isolation' : 'builds are refused')
  else log.warn({ sandbox: status }, 'builds wait until the isolation can be tested')
}

async function publishStatus(buildDir: string, status: SandboxStatus): Promise<void> {
  await replaceFile(join(buildDir, 'status.json'), `${JSON.stringify(status)}\n`)
}
