import type { Command } from '../core/build-plan.ts'
import { type BuildContext, SourceFault } from './build-context.ts'
import type { Step } from './sandbox/confine.ts'
import type { BuildTools } from './sandbox/environment.ts'
import { reopenFolders } from './sandbox/hostile-tree.ts'

/** A command in a folder of the source. */
export interface Execution {
  /** The root folder inside the build. */
  readonly root: string
  readonly tools: BuildTools
  /** The folder in which the command runs, with a trailing slash; the root is empty. */
  readonly folder: string
  readonly command: Command
  /** What the log shows or the sandbox runs before the command. */
  readonly before: readonly Step[]
  /** Only for the build step: what an install leaves is kept for other builds. */
  readonly variables?: Readonly<Record<string, string>>
}

/** The commands of one build, which share its time limit. */
export interface Commands {
  /** Time that the commands have taken. */
  readonly spentMs: number
  /** Whether a command has run, so that the tree may have any content. */
  readonly hasRun: boolean
  /** @throws SourceFault when the command fails or reaches a limit; Error when the sandbox does not start */
  run(execution: Execution): Promise<void>
}

export function createCommands({ deps, slot, workspace, reader, buildLog, signal }: BuildContext): Commands {
  const { memoryBytes, timeoutMs } = deps.config.build
  let spentMs = 0
  let hasRun = false

  return {
    get spentMs() {
      return spentMs
    },
    get hasRun() {
      return hasRun
    },
    async run(execution) {
      const began = performance.now()
      hasRun = true
      try {
        await runOne(execution)
      } finally {
        spentMs += performance.now() - began
        await reopenFolders({ source: execution.root, home: workspace.home })
      }
    },
  }

  async function runOne({ root, tools, folder, command, before, variables = {} }: Execution): Promise<void> {
    const ended = await deps.sandbox.run({
      workspace: { ...workspace, source: root },
      slot,
      tools,
      folder,
      commands: [...before, command],
      variables,
      timeoutMs: timeoutMs - spentMs,
      signal,
      onOutput: (chunk) => buildLog.append(chunk),
      onNotice: (line) => buildLog.line(line),
    })
    if (!ended.started && !ended.stopped) {
      throw new Error(`the sandbox did not start: ${(await buildLog.recent()).trim().slice(-500)}`)
    }
    if (ended.code === 0 && !ended.stopped) return
    const failure = { ...ended, command, log: await buildLog.recent(), memoryBytes, timeoutMs }
    throw new SourceFault(await reader.call('explainFailure', failure))
  }
}
