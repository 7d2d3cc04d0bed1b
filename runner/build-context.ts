import type { BuildLogs } from '../infra/build-logs/build-logs.ts'
import type { Cas } from '../infra/cas/cas.ts'
import type { Config } from '../infra/config.ts'
import type { Logger } from '../infra/log.ts'
import type { Toolchain } from '../infra/toolchain/toolchain.ts'
import type { BuildInput } from '../workflows/contract/builds.ts'
import type { BuildLog } from './build-log.ts'
import type { KeptFolders } from './install/kept-folders.ts'
import type { Reader, Readers } from './readers.ts'
import type { Sandbox } from './sandbox/sandbox.ts'
import type { Slot, Slots } from './sandbox/slots.ts'
import type { Workspace } from './sandbox/workspace.ts'
import type { ReadVariables, VariablesAnswer } from './variables.ts'

/** The state shared by all builds of a runner. */
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
  readonly readVariables: ReadVariables
}

export type Phase = 'wait' | 'fetch source' | 'unpack' | 'install' | 'build' | 'collect' | 'store'

/** The state shared by the steps of one build. */
export interface BuildContext {
  readonly deps: BuildDeps
  readonly input: BuildInput
  readonly slot: Slot
  readonly workspace: Workspace
  readonly reader: Reader
  readonly buildLog: BuildLog
  /** For the build step. */
  readonly variables: VariablesAnswer
  /** Aborted when the build is cancelled, and when its reader has stopped. */
  readonly signal: AbortSignal
  readonly onPhase: (phase: Phase) => void
  /** The size limit of the inflated archive and of the artifact. */
  readonly maxBytes: number
}

/** Thrown inside a build when something is wrong with the source. Its message becomes the deploy's `error`. */
export class SourceFault extends Error {}
