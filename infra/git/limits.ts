import { maxArchiveEntries } from '../../core/limits.ts'

const MiB = 1024 * 1024

export interface GitLimits {
  /** The size of the pack, as the server sends it. */
  readonly maxPackBytes: number
  /** The size of all files. */
  readonly maxBytes: number
  readonly maxFileBytes: number
  readonly maxFiles: number
  readonly timeoutMs: number
  /** The memory of the process that fetches; above it, the repository counts as too large. */
  readonly maxMemoryBytes: number
}

export const defaultGitLimits: GitLimits = {
  maxPackBytes: 128 * MiB,
  maxBytes: 512 * MiB,
  maxFileBytes: 64 * MiB,
  maxFiles: maxArchiveEntries,
  timeoutMs: 120_000,
  maxMemoryBytes: 512 * MiB,
}
