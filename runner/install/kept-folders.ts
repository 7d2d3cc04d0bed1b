import { execa } from 'execa'
import { readableLevels, type TrustLevel } from '../../core/build-trust.ts'
import { removeTree } from '../sandbox/workspace.ts'
import { defaultLimits, type KeptLimits, type KeptUsage, projectOver, publishUsage, sharesOf, usageOf } from './kept-limits.ts'
import { type KeptFolder, moved, openKeptStore } from './kept-store.ts'
import { fitsSeal, sealFolder } from './seal.ts'

const copyTimeoutMs = 60_000

/** What a folder is for; another project, level of trust or purpose never meets it. */
export interface KeptKey {
  readonly project_id: string
  /** Of the build that takes or puts. */
  readonly trust: TrustLevel
  readonly purpose: string
}

/**
 * Folders that builds of one project hand on. A folder is moved or copied whole: what a build has in its hands nobody else can reach, and
 * what is half done is never found. What a build leaves in one is hostile and only ever renamed, listed, copied, given away and removed.
 * Each has a seal, a digest over the listing of all that is in it, made when it was set aside; a folder that does not fit its seal is
 * removed instead of being restored.
 */
export interface KeptFolders {
  /**
   * Brings a folder of the build's own level, by moving it, or else a copy of one that a more trusted level has set aside, to a path where
   * there is none. False when none is kept, another build has it, or it is not as it was set aside.
   */
  take(key: KeptKey, to: string): Promise<boolean>
  /**
   * Sets a folder aside, in the place of an earlier one. Only when no process of the build runs. Nothing happens when it is too large,
   * holds what is no file, folder or link, or shares a file with what lies outside of it, as that file could still be changed there.
   * @param leave copies it, for a build that goes on to read it
   */
  put(key: KeptKey, from: string, options?: { readonly leave?: boolean }): Promise<void>
  usage(): Promise<KeptUsage>
}

/** Removes what a killed runner has left, and folders beyond the limits. */
export async function openKeptFolders(buildDir: string, wanted: Partial<KeptLimits> = {}): Promise<KeptFolders> {
  const limits = { ...defaultLimits, ...wanted }
  const store = await openKeptStore(buildDir)
  /** Folders that are being copied, which nobody moves away: another build's user would get at them. */
  const copied = new Map<string, number>()
  await trim()

  return {
    async take({ project_id, trust, purpose }, to) {
      for (const level of readableLevels(trust)) {
        const kept = await store.find(project_id, `${level} ${purpose}`)
        if (kept === undefined) continue
        const isOwn = level === trust && !copied.has(kept.path)
        if (isOwn ? await moveKept(kept, to) : await copyKept(kept, to)) return true
        await removeTree(to)
      }
      return false
    },
    async put({ project_id, trust, purpose }, from, { leave = false } = {}) {
      if (!readableLevels(trust).includes(trust)) return
      const sealed = await sealFolder(from, limits)
      if (!sealed) return
      const key = `${trust} ${purpose}`
      if (leave) await putCopy(project_id, key, from)
      else await add(project_id, key, from, sealed)
      await trim()
    },
    usage: async () => usageOf(sharesOf(await store.list())),
  }

  async function putCopy(project: string, key: string, from: string): Promise<void> {
    const copy = store.doomedPath()
    try {
      const sealed = (await copyTree(from, copy)) ? await sealFolder(copy, limits) : undefined
      if (sealed) await add(project, key, copy, sealed)
    } finally {
      await removeTree(copy)
    }
  }

  async function add(project: string, key: string, from: string, { seal, bytes }: { seal: string; bytes: number }) {
    await store.add(project, key, from, { seal, bytes: Math.max(bytes, limits.leastBytes) })
  }

  async function moveKept({ path, seal }: KeptFolder, to: string): Promise<boolean> {
    return (await moved(path, to)) && (await fitsSeal(to, seal))
  }

  /** Whole, or false: a folder that was discarded in between does not fit its seal any more. */
  async function copyKept({ path, seal }: KeptFolder, to: string): Promise<boolean> {
    copied.set(path, (copied.get(path) ?? 0) + 1)
    try {
      if (!(await copyTree(path, to)) || !(await fitsSeal(path, seal))) return false
      await store.touch(path).catch(() => undefined)
      return true
    } finally {
      const others = (copied.get(path) ?? 1) - 1
      if (others === 0) copied.delete(path)
      else copied.set(path, others)
    }
  }

  /** Removes folders until every limit holds, and publishes what is left. */
  async function trim(): Promise<void> {
    const kept = await store.list()
    for (;;) {
      const shares = sharesOf(kept)
      const over = projectOver(shares, limits)
      if (over === undefined) return await publishUsage(buildDir, usageOf(shares))
      const oldest = kept.findIndex(({ project }) => project === over)
      for (const { path } of kept.splice(oldest, 1)) await store.discard(path)
    }
  }
}

async function copyTree(from: string, to: string): Promise<boolean> {
  const ended = await execa('cp', ['-a', '--reflink=auto', '-T', '--', from, to], {
    reject: false,
    timeout: copyTimeoutMs,
    stdio: 'ignore',
  })
  return !ended.failed
}
