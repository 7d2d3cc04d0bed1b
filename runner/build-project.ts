import { counted } from '../core/amounts.ts'
import { type Command, commandText } from '../core/build-plan.ts'
import type { BuildSettings } from '../core/build-settings.ts'
import { type BuildContext, SourceFault } from './build-context.ts'
import type { Commands } from './commands.ts'
import type { Packages } from './install/packages.ts'
import { getTools, ToolMissing, type WantedTools } from './install/tools.ts'
import { lookBeforeBuild } from './output/build-writes.ts'
import type { FoundOutput } from './output/output-folder.ts'
import type { Step } from './sandbox/confine.ts'
import type { BuildTools } from './sandbox/environment.ts'
import type { SourcePlan } from './source/source-plan.ts'

/** A source that has to be built. */
export interface Project {
  readonly plan: SourcePlan
  readonly settings: BuildSettings
  /** The root folder inside the build. */
  readonly root: string
  /** The folder to build, with a trailing slash; the root is empty. */
  readonly folder: string
}

/** Installs the packages of a project, or restores those of an earlier build, and builds it. Returns the folders that the build has written. */
export async function buildProject(
  context: BuildContext,
  { plan, settings, root, folder }: Project,
  commands: Commands,
  packages: Packages,
): Promise<FoundOutput> {
  if (plan.kind === 'refused') throw new SourceFault(plan.error)
  const { variables } = context
  if ('refused' in variables) throw new SourceFault(variables.refused)
  await refuseWithoutIsolation(context)
  const { workspace, reader, onPhase } = context
  onPhase('install')
  await packages.take(plan, root)
  const { hasDownloads, restored } = packages
  const tools = await toolsOf(context, { ...plan, hasDownloads })
  const before: Step[] = [plan.needsPython ? ['python3', '--version'] : ['node', '-v']]
  if (plan.install && restored) {
    before.push(commandLine(plan.installFolder, plan.install), restoredText(plan.lockName ?? '', restored.packages))
  } else if (plan.install) {
    await commands.run({ root, tools, folder: plan.installFolder, command: plan.install, before: before.splice(0) })
    await packages.installed()
  }
  onPhase('build')
  const untouched = await lookBeforeBuild(workspace, root, folder)
  if (plan.note !== undefined) before.push(plan.note)
  if (plan.hugo !== undefined) before.push(['hugo', 'version'])
  await commands.run({ root, tools, folder, command: plan.build, before, variables: variables.values })
  return await reader.call('findOutput', { before: untouched, framework: plan.framework, settings })
}

async function toolsOf({ deps, buildLog, signal }: BuildContext, wanted: WantedTools): Promise<BuildTools> {
  try {
    return await getTools(deps.toolchain, wanted, { signal, report: (line) => buildLog.line(line) })
  } catch (error) {
    if (!(error instanceof ToolMissing)) throw error
    deps.log.error({ err: error }, 'tool of a build not found')
    throw new SourceFault(error.message)
  }
}

async function refuseWithoutIsolation({ deps, input, signal }: BuildContext): Promise<void> {
  const { sandbox, log } = deps
  await sandbox.tested(signal)
  if (sandbox.status.builds) return
  log.error({ deploy_id: input.deploy_id, problems: sandbox.status.problems }, 'build refused without isolation')
  throw new SourceFault(
    'this server cannot run builds at present, because it cannot isolate them; send the built files without package.json, or ask the operator',
  )
}

/** Formats a command as the sandbox shows it. */
const commandLine = (folder: string, command: Command) => `$ ${folder && `cd ${folder.slice(0, -1)} && `}${commandText(command)}`

const restoredText = (lockName: string, packages: number) =>
  `node_modules restored from the last install of the same ${lockName} (${counted(packages, 'package')})`
