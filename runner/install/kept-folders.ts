import { execa } from 'execa'
import { readableLevels, type TrustLevel } from '../../core/build-trust.ts'
import { removeTree } from '../sandbox/workspace.ts'
import { defaultLimits, type KeptLimits, type KeptUsage, projectOver, publishUsage, sharesOf, usageOf } from './kept-limits.ts'
import { type KeptFolder, moved, openKeptStore } from './kept-store.ts'
import { fitsSeal, sealFolder } from './seal.ts'

const copyTimeoutMs = 60_000

/** The owner and purpose of a folder. Another project, level of trust or purpose never gets it. */
export interface KeptKey {
  readonly project_id: string
  /** The user of the build that takes or puts. */
  readonly trust: TrustLevel
  readonly purpose: string
}

/**
 * Folders that pass from one build of a project to the next. A folder is moved or copied as a whole, so that no other build can reach the
 * folder of a running build, and an incomplete one is never found. Their content is hostile: they are only renamed, listed, copied, given
 * another owner and removed. Each has a seal, a digest over the listing of its content, made when it was set aside; a folder that does not
 * match its seal is removed instead of being restored.
 */
export interface KeptFolders {
  /**
   * Moves a kept folder of the build's own level, or else a copy of one of a more trusted level, to a path that does not exist. False when none
   * is kept, another build has it, or it does not match its seal.
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

/** Removes the leftovers of a killed runner, and folders beyond the limits. */
export async function openKeptFolders(buildDir: string, wanted: Partial<KeptLimits> = {}): Promise<KeptFolders> {
  const limits = { ...defaultLimits, ...wanted }
  const store = await openKeptStore(buildDir)
  /** Folders that are being copied, which must not be moved: another build's user would get access to them. */
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

  /** Copies a folder completely, or returns false: a folder that was discarded in between no longer matches its seal. */
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

  /** Removes folders until every limit holds, and publishes the usage. */
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
