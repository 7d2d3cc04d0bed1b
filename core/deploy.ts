export const deployStatuses = ['queued', 'building', 'ready', 'active', 'failed', 'superseded'] as const
export type DeployStatus = (typeof deployStatuses)[number]

export const sourceKinds = ['archive', 'files', 'manifest', 'git'] as const
export type SourceKind = (typeof sourceKinds)[number]

/** `build`: the sandbox ran commands; `static`: an archive published as it is; `copy`: files or a manifest, already stored. */
export const buildModes = ['build', 'static', 'copy'] as const
export type BuildMode = (typeof buildModes)[number]

/** The statuses in which each action on a deploy is allowed (the specification's deploy states table). */
export const deployActions = {
  cancel: ['queued', 'building'],
  retry: ['ready', 'active', 'failed', 'superseded'],
  activate: ['ready', 'active', 'superseded'],
  purge: ['ready', 'superseded', 'failed'],
  preview: ['ready', 'superseded'],
} as const satisfies Record<string, readonly DeployStatus[]>
export type DeployAction = keyof typeof deployActions

export const deployAllows = (action: DeployAction, status: DeployStatus) =>
  (deployActions[action] as readonly DeployStatus[]).includes(status)

/** Where a git deploy came from. */
export interface GitSource {
  readonly commit: string
  readonly ref: string
  readonly message: string
  readonly author: string
}
