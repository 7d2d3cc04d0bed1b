import type { BuildLogs } from '../infra/build-logs/build-logs.ts'
import type { Cas } from '../infra/cas/cas.ts'
import type { Config } from '../infra/config.ts'
import type { Logger } from '../infra/log.ts'
import type { Toolchain } from '../infra/toolchain.ts'
import type { BuildInput } from '../workflows/contract/builds.ts'
import type { BuildLog } from './build-log.ts'
import type { KeptFolders } from './install/kept-folders.ts'
import type { Reader, Readers } from './readers.ts'
import type { Sandbox } from './sandbox/sandbox.ts'
import type { Slot, Slots } from './sandbox/slots.ts'
import type { Workspace } from './sandbox/workspace.ts'

/** What all builds of a runner share. */
export interface BuildDeps {
  readonly cas: Cas
  readonly buildLogs: BuildLogs
  readonly config: Pick<Config, 'build'>
  readonly log: Logger
  readonly sandbox: Sandbox
  readonly slots: Slots
  readonly readers: Readers
  readonly toolchain: Toolchain
  readonly keptFolders: KeptFolders
}

export type Phase = 'wait' | 'fetch source' | 'unpack' | 'install' | 'build' | 'collect' | 'store'

/** What the steps of one build share. */
export interface BuildContext {
  readonly deps: BuildDeps
  readonly input: BuildInput
  readonly slot: Slot
  readonly workspace: Workspace
  readonly reader: Reader
  readonly buildLog: BuildLog
  /** Aborted when the build is cancelled, and when its reader has stopped. */
  readonly signal: AbortSignal
  readonly onPhase: (phase: Phase) => void
  /** What the archive may inflate to, and the artifact hold. */
  readonly maxBytes: number
}

/** Thrown inside a build for what is wrong with the source; its message is the deploy's `error`. */
export class SourceFault extends Error {}
