import { join } from 'node:path'
import type { Config } from '../../infra/config.ts'
import { inside } from './bubblewrap.ts'
import type { CgroupLimits, Cgroups } from './cgroup.ts'
import type { MemoryUse } from './cgroup-memory.ts'
import { type Ended, runConfined, type Step } from './confine.ts'
import { type EgressPolicy, openEgress } from './egress.ts'
import { type BuildTools, buildEnvironment, packVariables } from './environment.ts'
import type { Slot } from './slots.ts'
import { watchMemory, watchThrashing } from './watch.ts'
import type { Workspace } from './workspace.ts'

const maxTransferBytes = 4 * 1024 * 1024 * 1024

export interface ConfinedRequest {
  readonly workspace: Workspace
  readonly slot: Slot
  readonly commands: readonly Step[]
  /** For the commands, beside what the platform sets. */
  readonly variables?: Readonly<Record<string, string>>
  /** The folder of the source where the commands run, with a slash at its end. The default is the source itself. */
  readonly folder?: string
  /** The default is Node 20 alone. */
  readonly tools?: BuildTools
  readonly signal: AbortSignal
  /** Gets a line of the runner itself, such as a refused connection. */
  readonly onNotice: (line: string) => void
}

/** Runs commands in a sandbox with a cgroup and a way out of their own, without a limit of time or disk. */
export type RunInCgroup = (
  /** Undefined runs without isolation. */
  bwrap: string | undefined,
  request: ConfinedRequest,
  run: {
    readonly limits: CgroupLimits
    readonly onOutput: (chunk: Buffer) => void
    readonly onOutOfMemory: () => void
    readonly onThrashing?: () => void
  },
) => Promise<Ended & { readonly memory: MemoryUse | undefined }>

export interface RunInCgroupDeps {
  readonly build: Pick<Config['build'], 'toolchainDir'>
  readonly cgroups: Cgroups
  readonly egress: EgressPolicy
  /** The folder that `writeSupportFiles` has written. */
  readonly supportDir: string
}

export function createRunInCgroup({ build, cgroups, egress, supportDir }: RunInCgroupDeps): RunInCgroup {
  const nodeAlone: BuildTools = { node: join(build.toolchainDir, 'node-20') }

  return async function runInCgroup(bwrap, request, run) {
    const { workspace, slot, commands, folder, signal, onNotice, tools = nodeAlone } = request
    await using exit = openEgress({ policy: egress, maxBytes: maxTransferBytes, report: onNotice })
    const cgroup = await cgroups.open(workspace.id, run.limits)
    let watchdog: Disposable | undefined
    try {
      const ended = await runConfined(
        { bwrap, uid: slot.uid, cgroup, view: viewOf(request, tools, bwrap !== undefined, run.limits) },
        { commands, folder },
        {
          // without a namespace it would count every process of the runner's own user
          maxProcesses: cgroup || !(bwrap || slot.uid) ? 0 : run.limits.pids,
          signal,
          onEntrance: exit.accept,
          onOutput: run.onOutput,
          onStart(pid) {
            const { memoryBytes } = run.limits
            if (!cgroup) watchdog = watchMemory(pid, memoryBytes, run.onOutOfMemory)
            else if (run.onThrashing) watchdog = watchThrashing(() => cgroup.memory(), memoryBytes, run.onThrashing)
          },
        },
      )
      const memory = await cgroup?.memory()
      if (memory && memory.oomKills > 0) run.onOutOfMemory()
      return { ...ended, memory }
    } finally {
      watchdog?.[Symbol.dispose]()
      await cgroup?.remove()
    }
  }

  function viewOf(request: ConfinedRequest, tools: BuildTools, isIsolated: boolean, limits: CgroupLimits) {
    const { source, home } = request.workspace
    const { node, packageManager, generator, made } = tools
    const outside = { toolchain: node, packageManager, generator, home, caBundle: join(supportDir, 'ca.pem') }
    const mounted = { packageManager: packageManager && inside.packageManager, generator: generator && inside.generator }
    const at = isIsolated ? { ...inside, ...mounted } : outside
    const paths = { ...at, made: made && `${at.home}/${made}` }
    const env = { ...buildEnvironment(paths, limits, tools.variables), ...packVariables(request.variables ?? {}) }
    return { supportDir, toolchainDir: node, packageManagerDir: packageManager, generatorDir: generator, source, home, env }
  }
}
