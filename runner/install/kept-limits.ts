import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const MiB = 1024 * 1024

export interface KeptLimits {
  /** Of one folder. */
  readonly maxBytes: number
  readonly maxFiles: number
  /** Of all together. The project that holds most gives its least recently used folder up first. */
  readonly totalBytes: number
  /** Of all that one project keeps. */
  readonly projectBytes: number
  /** Folders that one project may keep. */
  readonly perProject: number
  /** What a folder counts for at least, so that many small ones are bounded too. */
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

/** What one project keeps. */
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

/** The project that has to give a folder up: one above its share, or the one with the largest when all hold too much. */
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
  const file = join(buildDir, 'kept.prom')
  await writeFile(`${file}.tmp`, lines.join(''))
  await rename(`${file}.tmp`, file)
}
