import { etagsOf } from './conditions.ts'
import { noVariants } from './prepared-file.ts'
import type { SiteFile } from './site-files.ts'

/** Headers of a file that may do nothing in the origin of the site. */
export const secured = ['X-Content-Type-Options', 'nosniff', 'Content-Security-Policy', "sandbox; default-src 'none'"]

/** A file beside those of the deploy. It has no variants. */
export function fixedFile(blob: Pick<SiteFile, 'path' | 'sha256' | 'size'>, headers: readonly string[]): SiteFile {
  const etags = etagsOf(blob.sha256)
  const plainHeaders = [...headers, 'ETag', etags.plain, 'Accept-Ranges', 'bytes']
  return { ...blob, etags, mayHaveVariants: false, plainHeaders, variantHeaders: noVariants, unchangedHeaders: headers }
}

/** A WebP image that everybody may see; undefined when one of its facts is missing. */
export function fixedImage(path: string, sha256: string | null, size: number | null): SiteFile | undefined {
  if (sha256 === null || size === null) return undefined
  return fixedFile({ path, sha256, size }, ['Content-Type', 'image/webp', 'Cache-Control', 'public, max-age=3600', ...secured])
}
