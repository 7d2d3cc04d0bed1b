import type { Manifest, ManifestEntry } from '../../core/manifest.ts'
import type { Cas } from './cas.ts'

/** Stores the file set of a deploy, sorted by path, so that equal sets have equal hashes. Returns its sha256. */
export async function storeManifest(cas: Cas, files: readonly ManifestEntry[]): Promise<string> {
  const sorted = files.toSorted((a, b) => (a.path < b.path ? -1 : 1))
  const manifest: Manifest = { files: sorted.map(({ path, sha256, size }) => ({ path, sha256, size })) }
  const json = Buffer.from(JSON.stringify(manifest))
  return (await cas.put(json)).sha256
}

/** @throws Error when the object is missing: every manifest that a row names is stored */
export async function readManifest(cas: Cas, sha256: string): Promise<Manifest> {
  const object = await cas.open(sha256)
  if (!object) throw new Error(`the manifest ${sha256} is missing from the storage`)
  return JSON.parse((await object.bytes()).toString('utf8')) as Manifest
}
