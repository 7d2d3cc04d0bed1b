import { lstat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { execa } from 'execa'
import { workFolders } from '../../core/frameworks.ts'
import { outputFolders } from '../../core/output-folders.ts'
import { parseRootDir } from '../../core/root-dir.ts'
import { isRealFolder } from '../sandbox/hostile-tree.ts'
import type { Workspace } from '../sandbox/workspace.ts'

/** What tells the files that a build writes from those that were there before it. */
export interface BeforeBuild {
  /** A file made after everything that was there before: by its file system's clock, what the build writes changes later. */
  readonly stamp: string
  /** The inodes of those usual folders of builds that were there. */
  readonly inodes: Readonly<Record<string, string>>
}

const findTimeoutMs = 20_000
const maxListingBytes = 256 * 1024
const maxShownLength = 200
/** Folders of tools, whose pages are no sites. */
const toolFolders = [
  'node_modules',
  'coverage',
  '.git',
  '.next',
  '.nuxt',
  '.svelte-kit',
  '.angular',
  '.astro',
  '.cache',
  '.docusaurus',
  '.parcel-cache',
  '.turbo',
]

/**
 * To be called just before the build, while none of its processes run.
 * @param root the root folder inside the build
 * @param folder of the package that is built, with a slash at its end; the root is empty
 */
export async function lookBeforeBuild({ root: place }: Workspace, root: string, folder: string): Promise<BeforeBuild> {
  const stamp = join(place, 'before-build')
  await writeFile(stamp, '')
  const inodes: Record<string, string> = {}
  for (const name of [...outputFolders, ...workFolders]) {
    const inode = await inodeOf(root, folder + name)
    if (inode !== undefined) inodes[name] = inode
  }
  return { stamp, inodes }
}

/** Whether the build wrote a file into a usual folder, or put another folder with files in its place. */
export async function wroteTo(root: string, folder: string, name: string, before: BeforeBuild): Promise<boolean> {
  const inode = await inodeOf(root, folder + name)
  if (inode === undefined) return false
  const isOther = before.inodes[name] !== inode
  const found = await find(join(root, folder, name), [...(isOther ? [] : newer(before)), '-type', 'f', '-print', '-quit'])
  return found !== ''
}

/**
 * Finds the folder of an index.html that the build wrote, relative to `folder`: one inside `preferred` before others, then the
 * outermost. Undefined when there is none whose path can be a setting.
 */
export async function findIndexFolder(
  root: string,
  folder: string,
  before: BeforeBuild,
  preferred: string | undefined,
): Promise<string | undefined> {
  if (folder !== '' && !(await isRealFolder(root, folder.slice(0, -1)))) return undefined
  const named = toolFolders.flatMap((name, i) => [...(i === 0 ? [] : ['-o']), '-name', name])
  const prune = ['-type', 'd', '(', ...named, ')', '-prune', '-o']
  const found = await find(join(root, folder), [
    ...prune,
    '-name',
    'index.html',
    ...newer(before),
    '-type',
    'f',
    '-printf',
    '%h\\0',
  ])
  const top = join(root, folder)
  const folders = found
    .split('\0')
    .slice(0, -1)
    .map((path) => path.slice(top.length).replace(/^\//, ''))
  const isPreferred = (name: string) => preferred !== undefined && name.startsWith(`${preferred}/`)
  const depth = (name: string) => (isPreferred(name) ? 0 : 1000) + name.split('/').length
  return folders.filter(canBeSetting).sort((a, b) => depth(a) - depth(b) || (a < b ? -1 : 1))[0]
}

function canBeSetting(name: string): boolean {
  if (name === '') return true
  const parsed = name.length <= maxShownLength ? parseRootDir(name) : undefined
  return parsed?.ok === true && parsed.rootDir === name
}

const newer = ({ stamp }: BeforeBuild) => ['-newercm', stamp]

/** By `find`, which walks trees deeper than the longest path and follows no link. What it finds after the limits is left out. */
async function find(folder: string, expression: readonly string[]): Promise<string> {
  const { stdout } = await execa('find', ['-P', folder, ...expression], {
    extendEnv: false,
    env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'ignore'],
    stripFinalNewline: false,
    maxBuffer: maxListingBytes,
    timeout: findTimeoutMs,
    reject: false,
  })
  return stdout ?? ''
}

/** Undefined when there is no folder of this name, or only behind a link. */
async function inodeOf(root: string, path: string): Promise<string | undefined> {
  if (!(await isRealFolder(root, path))) return undefined
  return String((await lstat(join(root, path), { bigint: true })).ino)
}
