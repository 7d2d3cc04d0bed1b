import { signals, type WorkflowSignal, type WorkflowStart } from './messages.ts'

export interface CompressionInput {
  readonly project_id: string
}

/** What one step of the work has done. */
export interface CompressedBatch {
  /** Whether files of the project are still to be compressed. */
  readonly more: boolean
  /** Files that were looked at, their bytes, and those of their smallest forms. */
  readonly files: number
  readonly bytes: number
  readonly compressed_bytes: number
}

/** Activities of the queue `compress`, implemented in `activities/compression.ts`. Each may be repeated. */
export interface CompressionActivities {
  /** Makes brotli and zstd variants of files of live deploys of the project, for about ten seconds. */
  compressBatch(input: CompressionInput): Promise<CompressedBatch>
}

/** Says that a deploy of the project went live; starts the workflow that compresses its files when it is not running. */
export function compressionSignal({
  project_id,
}: CompressionInput): WorkflowSignal<WorkflowStart<'compressFiles', CompressionInput>> {
  const workflow_id = `compress:${project_id}`
  return {
    workflow_id,
    signal: signals.changed,
    start: {
      workflow_id,
      type: 'compressFiles',
      input: { project_id },
      summary: '**Files** of live deploys get brotli and zstd variants',
      attributes: { ProjectId: project_id },
    },
  }
}
