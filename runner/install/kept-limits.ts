import { join } from 'node:path'
import { replaceFile } from '../../infra/replace-file.ts'

const MiB = 1024 * 1024

export interface KeptLimits {
  /** The size of one folder. */
  readonly maxBytes: number
  readonly maxFiles: number
  /** The size of all folders together. The project that holds most loses its least recently used folder first. */
  readonly totalBytes: number
  /** The size of all folders of one project. */
  readonly projectBytes: number
  /** The number of folders of one project. */
  readonly perProject: number
  /** The least size that a folder counts for, so that the number of small ones is limited too. */
  readonly leastBytes: number
}

export const defaultLimits: KeptLimits = {
  maxBytes: 1024 * MiB,
  maxFiles: 150_000,
  totalBytes: 10 * 1024 * MiB,
  projectBytes: 2560 * MiB,
  perProject: 16,
  leastBytes: 4 * MiB,
}

export interface KeptUsage {
  readonly folders: number
  readonly bytes: number
  /** Bytes of the project that holds most. */
  readonly largestShare: number
}

/** The folders of one project. */
interface Share {
  readonly bytes: number
  readonly folders: number
}

export function sharesOf(kept: readonly { readonly project: string; readonly bytes: number }[]): ReadonlyMap<string, Share> {
  const shares = new Map<string, Share>()
  for (const { project, bytes } of kept) {
    const held = shares.get(project) ?? { bytes: 0, folders: 0 }
    shares.set(project, { bytes: held.bytes + bytes, folders: held.folders + 1 })
  }
  return shares
}

/** The project that must lose a folder: one above its share, or the one with the largest when all hold too much. */
export function projectOver(shares: ReadonlyMap<string, Share>, limits: KeptLimits): string | undefined {
  const bySize = [...shares].sort(([, a], [, b]) => b.bytes - a.bytes)
  const own = bySize.find(([, { bytes, folders }]) => bytes > limits.projectBytes || folders > limits.perProject)
  const over = own ?? (sum(bySize.map(([, { bytes }]) => bytes)) > limits.totalBytes ? bySize[0] : undefined)
  return over?.[0]
}

export function usageOf(shares: ReadonlyMap<string, Share>): KeptUsage {
  const all = [...shares.values()]
  const bytes = all.map((share) => share.bytes)
  return { folders: sum(all.map((share) => share.folders)), bytes: sum(bytes), largestShare: Math.max(0, ...bytes) }
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)

/** Writes the usage to `kept.prom`, for the textfile collector of a node exporter. */
export async function publishUsage(buildDir: string, { folders, bytes, largestShare }: KeptUsage): Promise<void> {
  const figures = { folders, bytes, largest_share_bytes: largestShare }
  const lines = Object.entries(figures).map(([name, value]) => `# TYPE plinth_kept_${name} gauge\nplinth_kept_${name} ${value}\n`)
  await replaceFile(join(buildDir, 'kept.prom'), lines.join(''))
}
