import { unavailable } from '../../core/errors.ts'
import type { ManifestEntry } from '../../core/manifest.ts'
import { type CompiledRules, compileRules } from '../../core/site-rules/compile.ts'
import { maxRuleFileBytes, type RuleFile } from '../../core/site-rules/rules.ts'
import type { ObjectBatch } from './cas.ts'

type Objects = Pick<ObjectBatch, 'open'>

/**
 * Compiles `_redirects` and `_headers` of a set of files.
 * @throws AppError `unavailable` when the storage has lost one
 */
export async function readSiteRules(objects: Objects, files: readonly ManifestEntry[]): Promise<CompiledRules> {
  const textOf = async (path: RuleFile) => {
    const file = files.find((file) => file.path === path)
    return file && (await readRuleFile(objects, file))
  }
  return compileRules({ redirects: await textOf('_redirects'), headers: await textOf('_headers') })
}

/**
 * The text of a `_redirects` or `_headers` file. Of a file that is too large, one byte more than is allowed is read.
 * @throws AppError `unavailable` when the storage has lost it
 */
export async function readRuleFile(objects: Objects, { path, sha256 }: Pick<ManifestEntry, 'path' | 'sha256'>): Promise<string> {
  const object = await objects.open(sha256)
  if (!object) throw unavailable(`the storage has lost ${path}; send it again`)
  if (object.size <= maxRuleFileBytes) return (await object.bytes()).toString('utf8')
  return Buffer.concat(await object.stream(0, maxRuleFileBytes).toArray()).toString('utf8')
}
