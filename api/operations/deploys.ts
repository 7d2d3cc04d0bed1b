import { z } from 'zod'
import { deployStatuses } from '../../core/deploy.ts'
import { maxArchiveBytes, maxDeployFilesBodyBytes, maxManifestEntries } from '../../core/limits.ts'
import { sha256Pattern } from '../../core/manifest.ts'
import { acceptDeploy } from '../../services/deploys/accept.ts'
import { activateDeploy } from '../../services/deploys/activate.ts'
import { listDeploys, readDeploys } from '../../services/deploys/deploys.ts'
import { checkDeployGates } from '../../services/deploys/gates.ts'
import { deleteDeployFiles } from '../../services/deploys/purge.ts'
import { bytesOf, findBlobSizes, newBlobs } from '../../services/storage/blobs.ts'
import { beginUpload, chargedBytes } from '../../services/storage/pending-upload.ts'
import { acceptFiles } from '../accept-files.ts'
import { Listing } from '../listing.ts'
import { operation } from '../operation.ts'
import { storeArchive } from '../store-archive.ts'
import { measureFiles, readContent, readEntries, requireStaticSite, storeFiles } from '../store-files.ts'
import { Deploy, deployOfCaller, deployView, deployViews } from '../views/deploy.ts'
import { activate, deploy_id, filePath, Ok, site_id, title } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'

const tag = 'Deploys'

export const list_deploys = operation({
  id: 'list_deploys',
  title: 'List deploys',
  summary: 'Lists the deploys of a site, newest first, on request those of one status.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/deploys',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({
    site_id,
    status: z.enum(deployStatuses).optional().describe('Lists only deploys with this status.'),
    limit: z.int().min(1).max(200).default(100),
    before: z.uuid().optional().describe('Id of the last deploy of the previous page.'),
  }),
  load: siteOfCaller,
  output: z.array(Deploy),
  lists: [{ key: 'id', continuedBy: 'before' }],
  handler: async (ctx, { site_id, ...page }) => {
    const { project_id } = ctx.caller
    const { sizes, next } = await listDeploys(ctx.db, project_id, site_id, page)
    return Listing.of(readDeploys(ctx.db, project_id, sizes), (rows) => deployViews(ctx, rows), next)
  },
})

export const deploy_site = operation({
  id: 'deploy_site',
  title: 'Deploy an archive',
  summary:
    'Publishes a tar.gz or zip of a site. With a package.json at its root the project is built (npm ci && npm run build), and so is a site of Hugo or MkDocs without an index.html; otherwise the files are published as they are. Poll get_deploy_status until the status is active or failed.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/deploys',
  tool: {},
  scope: 'editor',
  input: z.object({ site_id, activate, title }),
  raw: {
    name: 'source',
    description: 'The archive: tar.gz or zip, at most 50 MB.',
    mediaTypes: ['application/gzip', 'application/zip', 'application/octet-stream'],
    maxBytes: maxArchiveBytes,
  },
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: Deploy,
  errors: [400, 402, 409, 429],
  handler: async (ctx, { activate, title, upload }, site) => {
    const { project_id: id, ...caller } = ctx.caller
    const charged = chargedBytes(upload)
    await using pending = await beginUpload(ctx, { project_id: id, bytes: charged })
    // the charged bytes already count
    const addedBytes = (upload.expectedBytes ?? 0) - charged
    await checkDeployGates(ctx.db, ctx, { id, ...caller }, { addedBytes, activate, upload: pending.id })
    const source = await storeArchive(pending.objects, pending.receive(upload))
    return await deployView(ctx, await acceptDeploy(ctx, site, { source_kind: 'archive', activate, title, source }, pending))
  },
})

export const deploy_files = operation({
  id: 'deploy_files',
  title: 'Deploy files',
  summary:
    'Publishes the complete set of static files, sent as JSON; files that are not in the list are removed. The set needs an index.html and must not have a package.json at its root. A file that was sent before can be referenced by its sha256 instead of its content.',
  tag,
  rest: 'POST /api/v1/sites/{site_id}/deploy-files',
  tool: {},
  scope: 'editor',
  input: z.object({
    site_id,
    files: z
      .array(
        z
          .object({
            path: filePath,
            content: z
              .string()
              .meta({ maxLength: maxDeployFilesBodyBytes })
              .optional()
              .describe('The content as text, or as base64 when encoding says so.'),
            encoding: z.literal('base64').optional(),
            sha256: z
              .string()
              .optional()
              .meta({ pattern: sha256Pattern.source })
              .describe('The hash of a blob of the project, instead of content.'),
          })
          .meta({ oneOf: [{ required: ['content'] }, { required: ['sha256'] }] }),
      )
      .meta({ minItems: 1, maxItems: maxManifestEntries })
      .describe('The complete set of files, at most 2000.'),
    activate,
    title,
  }),
  example: {
    files: [
      { path: 'index.html', content: '<!doctype html><title>Field notes</title><img src="dot.gif" alt="A dot">' },
      { path: 'dot.gif', content: 'R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==', encoding: 'base64' },
    ],
  },
  largeBody: { maxBytes: maxDeployFilesBodyBytes, longMembers: ['content'] },
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: Deploy,
  errors: [400, 402, 409, 429, 503],
  handler: async (ctx, input, site) => {
    const { files, skipped_paths } = readEntries(input.files, (entry, label) => readContent(entry, label, input.texts))
    requireStaticSite(files)
    const { project_id: id, ...caller } = ctx.caller
    const references = files.filter((file) => 'sha256' in file)
    const hashes = references.map((file) => file.sha256)
    const sizes = await findBlobSizes(ctx.db, id, hashes)
    const bytes = bytesOf(await newBlobs(ctx.db, id, await measureFiles(files, sizes)))
    await using upload = await beginUpload(ctx, { project_id: id, bytes })
    // the new bytes already count
    const facts = { addedBytes: 0, activate: input.activate, upload: upload.id }
    await checkDeployGates(ctx.db, ctx, { id, ...caller }, facts)
    const entries = await storeFiles(upload.objects, files, sizes)
    const { activate, title } = input
    const set = { source_kind: 'files' as const, activate, title, files: entries, references, skipped_paths }
    return await acceptFiles(ctx, site, set, upload)
  },
})

export const get_deploy_status = operation({
  id: 'get_deploy_status',
  title: 'Get a deploy',
  summary: 'Gets a deploy with its status and, if it failed, the error.',
  tag,
  rest: 'GET /api/v1/deploys/{deploy_id}',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({ deploy_id }),
  load: deployOfCaller,
  output: Deploy,
  handler: async (ctx, _input, deploy) => await deployView(ctx, deploy),
})

export const activate_deploy = operation({
  id: 'activate_deploy',
  title: 'Activate a deploy',
  summary: 'Publishes a ready deploy, or rolls back to a superseded one.',
  tag,
  rest: 'POST /api/v1/deploys/{deploy_id}/activate',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({ deploy_id }),
  load: deployOfCaller,
  whenSuspended: 'refuse',
  output: z.object({ ...Deploy.shape, ok: z.literal(true), previous_deploy_id: z.uuid().nullable() }).meta({ id: 'Activation' }),
  errors: [402, 409],
  handler: async (ctx, { deploy_id }) => {
    const { deploy, previous_deploy_id } = await activateDeploy(ctx, deploy_id)
    return { ...(await deployView(ctx, deploy)), ok: true as const, previous_deploy_id }
  },
})

export const delete_deploy = operation({
  id: 'delete_deploy',
  title: "Delete a deploy's files",
  summary: 'Deletes the files of a deploy that is not live; its record stays in the history.',
  tag,
  rest: 'DELETE /api/v1/deploys/{deploy_id}',
  tool: { destructive: true, idempotent: true },
  scope: 'editor',
  input: z.object({ deploy_id }),
  load: deployOfCaller,
  output: Ok,
  errors: [409, 503],
  handler: async (ctx, _input, deploy) => {
    await deleteDeployFiles(ctx, deploy)
    return { ok: true as const }
  },
})
