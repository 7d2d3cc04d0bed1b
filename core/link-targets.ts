// Links inside an archive or inside the output of a build become copies of what they lead to. They are resolved by their texts alone and never
// followed on a disk, so that no link leads out of the tree.

/** Links that lead to other links, one after the other. */
const maxHops = 8
/** Longer targets would only waste time. */
const longestTarget = 4096

/** Why a link is left out. */
export const linkRefusals = {
  outside: 'a link out of the tree',
  missing: 'a link to something that is not in the tree',
  circular: 'a link that leads to too many other links',
} as const

/** A symbolic link is relative to its folder, a hard link in a tar to the root of the archive. */
export type LinkKind = 'symbolic' | 'hard'

/**
 * The path that a link names, normalised and relative to the root; empty for the root itself. Undefined when it leads out of the tree.
 * @param path normalised path of the link
 */
export function linkTarget(path: string, kind: LinkKind, text: string): string | undefined {
  if (text === '' || text.length > longestTarget || text.startsWith('/') || text.includes('\\') || text.includes('\0')) {
    return undefined
  }
  const segments = kind === 'symbolic' ? path.split('/').slice(0, -1) : []
  for (const segment of text.normalize('NFC').split('/')) {
    if (segment === '' || segment === '.') continue
    if (segment !== '..') segments.push(segment)
    else if (segments.pop() === undefined) return undefined
  }
  return segments.join('/')
}

/** A file that is a copy of another one, because the tree has a link to that. */
export interface LinkedCopy {
  readonly path: string
  readonly from: string
}

interface RefusedLink {
  readonly path: string
  readonly reason: string
}

/**
 * The copies that the links of a tree stand for; a link to a folder stands for each of its files. A link leads through at most 8 others. The
 * caller checks the paths of the copies, and bounds their number.
 * @param files paths of the regular files
 * @param links what the links name, by their paths
 */
export function* copiesOfLinks(files: Iterable<string>, links: ReadonlyMap<string, string>): Generator<LinkedCopy | RefusedLink> {
  if (links.size === 0) return
  const sorted = [...files].sort()
  const isFile = new Set(sorted)
  const isFolder = foldersOf(sorted)
  for (const link of links.keys()) {
    const found = resolve(link)
    if (found === undefined) yield { path: link, reason: linkRefusals.circular }
    else if (isFile.has(found)) yield { path: link, from: found }
    else if (!isFolder.has(found)) yield { path: link, reason: linkRefusals.missing }
    else {
      const above = found === '' ? 0 : found.length + 1
      for (const from of filesBelow(sorted, found)) yield { path: `${link}/${from.slice(above)}`, from }
    }
  }

  /** The path that a link leads to in the end; undefined when too many links are on the way. */
  function resolve(link: string): string | undefined {
    let path = links.get(link) ?? ''
    for (let hops = 0; hops < maxHops; hops++) {
      const linked = isFile.has(path) ? undefined : linkedPrefix(links, path)
      if (linked === undefined) return path
      const rest = path.slice(linked.length + 1)
      path = [links.get(linked) ?? '', rest].filter((part) => part !== '').join('/')
    }
    return undefined
  }
}

function foldersOf(files: readonly string[]): Set<string> {
  const folders = new Set([''])
  for (const file of files) {
    for (let at = file.lastIndexOf('/'); at > 0; at = file.lastIndexOf('/', at - 1)) {
      const folder = file.slice(0, at)
      // its parents are known too
      if (folders.has(folder)) break
      folders.add(folder)
    }
  }
  return folders
}

/** The shortest part of the path that is a link: itself, or a folder on its way. */
function linkedPrefix(links: ReadonlyMap<string, string>, path: string): string | undefined {
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1)) {
    if (links.has(path.slice(0, at))) return path.slice(0, at)
  }
  return links.has(path) ? path : undefined
}

/** @param sorted paths of all regular files, sorted by their code units */
function* filesBelow(sorted: readonly string[], folder: string): Generator<string> {
  const prefix = folder === '' ? '' : `${folder}/`
  let low = 0
  for (let high = sorted.length; low < high; ) {
    const middle = (low + high) >>> 1
    if ((sorted[middle] ?? '') < prefix) low = middle + 1
    else high = middle
  }
  for (let at = low; at < sorted.length; at++) {
    const path = sorted[at] ?? ''
    if (!path.startsWith(prefix)) return
    yield path
  }
}
