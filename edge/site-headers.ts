import type { AppliedHeader } from '../core/site-rules/merge-headers.ts'
import type { SiteFile } from './site-files.ts'

/**
 * The file with headers of `_headers`; a `Content-Type` replaces that of the platform.
 *
 * The 304 has them too, although RFC 9110 (15.4.5) demands few of them: the ETag depends on the content alone, so browsers would keep the
 * headers of an earlier deploy until the content changes.
 *
 * @param left the names of headers, in lower case, that are left out
 */
export function withHeaders(file: SiteFile, headers: readonly AppliedHeader[], left?: ReadonlySet<string>): SiteFile {
  let { plainHeaders, variantHeaders, unchangedHeaders } = file
  for (const { name, value } of headers) {
    const lower = name.toLowerCase()
    // every response has it
    if (lower === 'x-content-type-options' || left?.has(lower)) continue
    if (lower === 'content-type') {
      plainHeaders = withType(plainHeaders, value)
      if (file.mayHaveVariants) variantHeaders = ofEach(variantHeaders, (own) => withType(own, value))
      continue
    }
    plainHeaders = [...plainHeaders, name, value]
    if (file.mayHaveVariants) variantHeaders = ofEach(variantHeaders, (own) => [...own, name, value])
    unchangedHeaders = [...unchangedHeaders, name, value]
  }
  const { path, sha256, size, etags, mayHaveVariants } = file
  return { path, sha256, size, etags, mayHaveVariants, plainHeaders, variantHeaders, unchangedHeaders }
}

const withType = (headers: readonly string[], type: string) => headers.with(headers.indexOf('Content-Type') + 1, type)

type VariantHeaders = SiteFile['variantHeaders']
const ofEach = ({ br, zstd, gzip }: VariantHeaders, change: (own: readonly string[]) => readonly string[]): VariantHeaders => ({
  br: change(br),
  zstd: change(zstd),
  gzip: change(gzip),
})
