import { existsSync } from 'node:fs'
import type { NodeMajor, PackageManager } from '../../core/build-plan.ts'
import { type HugoRelease, noPython } from '../../core/generators.ts'
import type { Toolchain, ToolRequest } from '../../infra/toolchain/toolchain.ts'
import type { BuildTools } from '../sandbox/environment.ts'
import { managerEnvironment, pipEnvironment, pythonFolder } from './manager-environment.ts'

/** The sandbox has the host's `/usr`, without `/usr/local`. */
const systemPython = '/usr/bin/python3'

export interface WantedTools {
  readonly node: NodeMajor
  readonly packageManager: PackageManager
  readonly hugo: HugoRelease | undefined
  readonly needsPython: boolean
  /** Whether the home folder has the downloads of an earlier build. */
  readonly hasDownloads: boolean
}

/** Node, the package manager and the generator of a build, installed when a build needs them for the first time. */
export async function getTools(
  toolchain: Toolchain,
  { node, packageManager, hugo, needsPython, hasDownloads }: WantedTools,
  request: ToolRequest,
): Promise<BuildTools> {
  const [nodeFolder, managerFolder, generator] = await Promise.all([
    toolchain.get(`node-${node}`, request),
    packageManager === 'npm' ? undefined : toolchain.get(packageManager, request),
    getGenerator(toolchain, { hugo, needsPython }, request),
  ])
  return {
    node: nodeFolder,
    packageManager: managerFolder,
    generator,
    made: needsPython ? pythonFolder : undefined,
    variables: (home) => ({
      ...managerEnvironment(packageManager, home, hasDownloads),
      ...(needsPython && pipEnvironment(home)),
    }),
  }
}

/** Thrown when a tool that not every server can fetch is not to be had. The message is for the author of the source. */
export class ToolMissing extends Error {}

async function getGenerator(
  toolchain: Toolchain,
  { hugo, needsPython }: Pick<WantedTools, 'hugo' | 'needsPython'>,
  request: ToolRequest,
): Promise<string | undefined> {
  if (needsPython && !existsSync(systemPython)) throw new ToolMissing(noPython)
  const tool = needsPython ? 'pip' : hugo && (`hugo-${hugo}` as const)
  if (!tool) return undefined
  try {
    return await toolchain.get(tool, request)
  } catch (cause) {
    request.signal?.throwIfAborted()
    const title = needsPython ? 'pip' : `Hugo ${hugo}`
    const message = `this server cannot fetch ${title} from files.pythonhosted.org at present; deploy again later, or ask the operator`
    throw new ToolMissing(message, { cause })
  }
}
