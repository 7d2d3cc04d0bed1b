import { z } from 'zod'
import { invalid } from '../../core/errors.ts'
import { maxBlobBytes, maxManifestBodyBytes, maxManifestEntries, maxPathBytes } from '../../core/limits.ts'
import { sha256Pattern } from '../../core/manifest.ts'
import { findDeploy } from '../../services/deploys/deploys.ts'
import { readFilesInBatches, requireFiles } from '../../services/deploys/files.ts'
import { checkDeployGates, checkPreviews } from '../../services/deploys/gates.ts'
import { findBlobSizes, missingBlobs, renewBlobs } from '../../services/storage/blobs.ts'
import { beginUpload } from '../../services/storage/pending-upload.ts'
import { receiveBlob } from '../../services/storage/receive-blob.ts'
import { acceptFiles } from '../accept-files.ts'
import { Listing } from '../listing.ts'
import { operation } from '../operation.ts'
import { readEntries, readHash, requireStaticSite } from '../store-files.ts'
import { writtenBy } from '../views/authors.ts'
import { Deploy, deployOfCaller } from '../views/deploy.ts'
import { activate, deploy_id, filePath, sha256, site_id, title } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'

const tag = 'Deploys'

/** A malformed hash is a 400, not a 422, so the pattern is only for the OpenAPI document. */
const blobHash = z
  .string()
  .meta({ minLength: 64, maxLength: 64, pattern: sha256Pattern.source })
  .describe('The sha256 of the bytes, in lower-case hexadecimal.')

const files = z
  .array(
    z.object({
      path: filePath,
      sha256: blobHash,
      size: z.int().optional().describe('Ignored: the size of the blob counts.'),
    }),
  )
  .meta({ minItems: 1, maxItems: maxManifestEntries })
  .describe('The complete set of files, at most 2000.')

const deployedPath = writtenBy('sources', z.string())
const after = z.string().max(maxPathBytes).optional().describe('The path of the last file of the previous page.')

const MissingBlobs = z
  .object({
    error: z.string().describe('What is wrong and what to do.'),
    missing: z
      .array(sha256)
      .describe('The hashes of the blobs to send with put_blob, without repetitions, in the order of the files.'),
  })
  .meta({ id: 'MissingBlobs' })

/** Uses the files of the example of deploy_files, so that both examples run one after the other. */
const example = {
  files: [
    { path: 'index.html', sha256: 'd021424867825a61f5e962783e6506f13196c37126a7a33d00520b3e275884f6', size: 71 },
    { path: 'dot.gif', sha256: 'bb229a48bee31f5d54ca12dc9bd960c63a671f0d4be86a054c1d324a44499d96', size: 37 },
  ],
}

/** @throws AppError `invalid` */
function requireHash(sha256: string): void {
  if (!sha256Pattern.test(sha256)) throw invalid('the sha256 in the path must be 64 lower-case hex characters')
}

const hashesOf = (list: readonly { readonly sha256: string }[]) => list.map((file) => file.sha256)

export const check_deploy = operation({
  id: 'check_deploy',
  title: 'Check a manifest',
  summary:
    'First of three steps to publish a manifest: lists the blobs that the project lacks. Send those with put_blob, then the same files with deploy_manifest. All blobs named here are kept for another day.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/deploys/check',
  scope: 'editor',
  input: z.object({ site_id, files, activate }),
  example,
  maxBodyBytes: maxManifestBodyBytes,
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: z.object({ missing: z.array(sha256).max(maxManifestEntries) }).meta({ id: 'DeployCheck' }),
  errors: [400, 402, 409],
  handler: async (ctx, input, _site) => {
    const hashes = [...new Set(hashesOf(readEntries(input.files, readHash).files))]
    checkPreviews(ctx.caller.plan, input.activate)
    const held = await renewBlobs(ctx, ctx.caller.project_id, hashes)
    return { missing: hashes.filter((hash) => !held.has(hash)) }
  },
})

export const put_blob = operation({
  id: 'put_blob',
  title: 'Send a blob',
  summary:
    'Second of three steps to publish a manifest: stores the bytes of one file, which must have the sha256 in the path, and keeps them for the project for a day. Repeating it is safe.',
  tag,
  rest: 'PUT /api/v1/blobs/{sha256}',
  scope: 'editor',
  input: z.object({ sha256: blobHash }),
  raw: {
    name: 'blob',
    description: 'The bytes, from 1 to 50 MB.',
    mediaTypes: ['application/octet-stream'],
    maxBytes: maxBlobBytes,
  },
  load: async (_ctx, input) => requireHash(input.sha256),
  whenSuspended: 'refuse',
  output: z
    .object({
      sha256,
      size: z.int().describe('Bytes.'),
      existed: z.boolean().describe('Whether the project had the blob before.'),
    })
    .meta({ id: 'Blob' }),
  errors: [400, 402, 409, 413],
  handler: async (ctx, { sha256, upload }) => {
    const { project_id: id, plan } = ctx.caller
    return { sha256, ...(await receiveBlob(ctx, { id, plan }, sha256, upload)) }
  },
})

export const deploy_manifest = operation({
  id: 'deploy_manifest',
  title: 'Deploy a manifest',
  summary:
    'Last of three steps to publish a manifest: publishes the complete set of files, whose blobs the project has. The set needs an index.html and must not have a package.json at its root. When blobs are missing, the response lists them.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/deploys/manifest',
  scope: 'editor',
  input: z.object({ site_id, files, activate, title }),
  example,
  maxBodyBytes: maxManifestBodyBytes,
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: Deploy,
  errors: [400, 402, 409, 429],
  errorBodies: { 400: MissingBlobs },
  handler: async (ctx, input, site) => {
    const { files: references, skipped_paths } = readEntries(input.files, readHash)
    requireStaticSite(references)
    const { project_id: id, ...caller } = ctx.caller
    const sizes = await findBlobSizes(ctx.db, id, [...new Set(hashesOf(references))])
    const missing = references.filter((file) => !sizes.has(file.sha256))
    if (missing.length > 0) throw missingBlobs(hashesOf(missing))
    await checkDeployGates(ctx.db, ctx, { id, ...caller }, { addedBytes: 0, activate: input.activate })
    const entries = references.map((file) => ({ ...file, size: sizes.get(file.sha256) ?? 0 }))
    const { activate, title } = input
    const set = { source_kind: 'manifest' as const, activate, title, files: entries, references, skipped_paths }
    // only the manifest itself is stored, and it does not count against the quota
    await using upload = await beginUpload(ctx, { project_id: id, bytes: 0 })
    return await acceptFiles(ctx, site, set, upload)
  },
})

export const get_manifest = operation({
  id: 'get_manifest',
  title: 'Get the manifest',
  summary:
    'Gets the paths and hashes of the live deploy, sorted by path; empty when nothing is live, or when it came from an archive or git.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/manifest',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({ site_id, after }),
  load: siteOfCaller,
  output: z.array(z.object({ path: deployedPath, sha256 }).meta({ id: 'ManifestEntry' })),
  lists: [{ key: 'path', continuedBy: 'after' }],
  errors: [503],
  handler: async (ctx, { after }, site) => {
    const live = site.active_deploy_id ? await findDeploy(ctx.db, ctx.caller.project_id, site.active_deploy_id) : undefined
    const sentAsFiles = live?.source_kind === 'files' || live?.source_kind === 'manifest'
    if (!sentAsFiles || !live.manifest_sha256) return []
    const published = readFilesInBatches(ctx, live.manifest_sha256, after)
    return Listing.of(published, (files) => files.map(({ path, sha256 }) => ({ path, sha256 })))
  },
})

export const list_deploy_files = operation({
  id: 'list_deploy_files',
  title: 'List the files of a deploy',
  summary: 'Lists every file that a deploy publishes, sorted by path, however it was sent: as files, as an archive or from git.',
  tag,
  rest: 'GET /api/v1/deploys/{deploy_id}/files',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({ deploy_id, after }),
  load: deployOfCaller,
  output: z.array(z.object({ path: deployedPath, sha256, size: z.int().describe('Bytes.') }).meta({ id: 'DeployedFile' })),
  lists: [{ key: 'path', continuedBy: 'after' }],
  errors: [409, 429, 503],
  handler: async (ctx, { after }, deploy) => new Listing(readFilesInBatches(ctx, requireFiles(deploy), after)),
})
