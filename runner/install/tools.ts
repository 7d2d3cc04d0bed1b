import type { NodeMajor, PackageManager } from '../../core/build-plan.ts'
import type { Toolchain, ToolRequest } from '../../infra/toolchain.ts'
import type { BuildTools } from '../sandbox/environment.ts'
import { managerEnvironment } from './manager-environment.ts'

export interface WantedTools {
  readonly node: NodeMajor
  readonly packageManager: PackageManager
  /** Whether the home folder has the downloads of an earlier build. */
  readonly hasDownloads: boolean
}

/** Node and the package manager of a build, installed when a build needs them for the first time. */
export async function getTools(
  toolchain: Toolchain,
  { node, packageManager, hasDownloads }: WantedTools,
  request: ToolRequest,
): Promise<BuildTools> {
  const [nodeFolder, managerFolder] = await Promise.all([
    toolchain.get(`node-${node}`, request),
    packageManager === 'npm' ? undefined : toolchain.get(packageManager, request),
  ])
  return {
    node: nodeFolder,
    packageManager: managerFolder,
    variables: (home) => managerEnvironment(packageManager, home, hasDownloads),
  }
}
