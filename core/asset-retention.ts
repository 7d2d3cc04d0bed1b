import { isHashed } from './caching.ts'
import type { ManifestEntry } from './manifest.ts'
import { hasExtension } from './serving.ts'

/**
 * The files of a superseded deploy that go on answering at their paths (addendum E34): those that are named after their content. Files without an
 * extension are not among them, because the newer deploy may answer at such a path with a page of another name.
 * @param isLive whether the newer deploy has a file at the path
 */
export const assetsToRetain = (superseded: readonly ManifestEntry[], isLive: (path: string) => boolean): ManifestEntry[] =>
  superseded.filter(({ path }) => hasExtension(path) && isHashed(path) && !isLive(path))
