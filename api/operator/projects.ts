import { z } from 'zod'
import { isPlainAddress, maxAddressLength, plainAddress } from '../../core/emails.ts'
import { conflict, invalid } from '../../core/errors.ts'
import { maxSuspendedReasonLength } from '../../core/limits.ts'
import { planNames } from '../../core/plans.ts'
import { scopes } from '../../core/scopes.ts'
import { countDomains } from '../../services/domains/domains.ts'
import { formsUsed } from '../../services/forms/usage.ts'
import { updateProject } from '../../services/plans/update-project.ts'
import { createKey, type KeyRow, readKeys, revokeKey } from '../../services/projects/keys.ts'
import { createProject, findProject, noSuchProject, type ProjectRow, readProjects } from '../../services/projects/projects.ts'
import { buildMinutes, countDeploysSince } from '../../services/projects/usage.ts'
import { eraseProject } from '../../services/removal/erase-project.ts'
import { countSites } from '../../services/sites/sites.ts'
import { storageBytes } from '../../services/storage/blobs.ts'
import type { Context } from '../context.ts'
import { Listing } from '../listing.ts'
import { operation } from '../operation.ts'
import { isoTime, isoTimeOrNull, line, name, Ok, requireVisible, time } from '../views/fields.ts'

const tag = 'Operator'
const project_id = z.uuid()
const owner_email = z
  .string()
  .refine(isPlainAddress, 'must be one plain address, such as ada@example.com')
  .meta({ format: 'email', pattern: plainAddress.source, maxLength: maxAddressLength })

const Project = z
  .object({
    id: z.uuid(),
    name: z.string(),
    owner_email: z.string(),
    plan: z.enum(planNames),
    suspended: z.boolean(),
    suspended_reason: z.string().nullable(),
    erasing: z.boolean().describe('Whether the sites of the project are being removed, and it with them.'),
    form_balance: z.int(),
    created_at: time,
  })
  .meta({ id: 'Project' })

const ProjectWithUsage = z
  .object({
    ...Project.shape,
    usage: z.object({
      sites: z.int(),
      domains: z.int(),
      storage_bytes: z.int(),
      forms_this_month: z.int(),
      build_minutes_this_month: z.int(),
      deploys_last_hour: z.int(),
    }),
  })
  .meta({ id: 'ProjectWithUsage' })

const Key = z
  .object({ id: z.string(), name: z.string(), scope: z.enum(scopes), created_at: time, last_used_at: time.nullable() })
  .meta({ id: 'Key' })

const projectView = (row: ProjectRow): z.input<typeof Project> => ({
  id: row.id,
  name: row.name,
  owner_email: row.owner_email,
  plan: row.plan,
  suspended: row.suspended,
  suspended_reason: row.suspended_reason,
  erasing: row.erasing,
  form_balance: row.form_balance,
  created_at: isoTime(row.created_at),
})

const keyView = ({ id, name, scope, created_at, last_used_at }: KeyRow): z.input<typeof Key> => ({
  id,
  name,
  scope,
  created_at: isoTime(created_at),
  last_used_at: isoTimeOrNull(last_used_at),
})

async function projectById(ctx: Context, input: { project_id: string }): Promise<ProjectRow> {
  const project = await findProject(ctx.db, input.project_id)
  if (!project) throw noSuchProject()
  return project
}

export const projectOperations = [
  operation({
    id: 'create_project',
    title: 'Create a project',
    summary: 'Creates a project. Create its first key next.',
    tag,
    rest: 'POST /operator/v1/projects',
    scope: 'full',
    input: z.object({ name, owner_email, plan: z.enum(planNames) }),
    example: { name: 'Notes', owner_email: 'ada@example.com', plan: 'start' },
    output: Project,
    errors: [400],
    handler: async (ctx, input) => {
      requireVisible(input.name)
      return projectView(await createProject(ctx, input))
    },
  }),
  operation({
    id: 'list_projects',
    title: 'List projects',
    summary: 'Lists all projects, oldest first.',
    tag,
    rest: 'GET /operator/v1/projects',
    scope: 'full',
    input: z.object({}),
    output: z.array(Project),
    lists: [{ key: 'id' }],
    handler: async (ctx) => Listing.of(readProjects(ctx.db), (rows) => rows.map(projectView)),
  }),
  operation({
    id: 'get_project',
    title: 'Get a project',
    summary: 'Gets a project with its usage.',
    tag,
    rest: 'GET /operator/v1/projects/{project_id}',
    scope: 'full',
    input: z.object({ project_id }),
    load: projectById,
    output: ProjectWithUsage,
    handler: async (ctx, { project_id: id }, project) => {
      const now = ctx.clock()
      const deploys = await countDeploysSince(ctx.db, id, new Date(now.getTime() - 3_600_000))
      return {
        ...projectView(project),
        usage: {
          sites: await countSites(ctx.db, id),
          domains: await countDomains(ctx.db, id),
          storage_bytes: await storageBytes(ctx.db, id),
          forms_this_month: await formsUsed(ctx.db, id, now),
          build_minutes_this_month: await buildMinutes(ctx.db, id, now),
          deploys_last_hour: deploys.count,
        },
      }
    },
  }),
  operation({
    id: 'update_project',
    title: 'Update a project',
    summary:
      'Changes the name, owner or plan of a project, suspends or resumes it, or adds to its form balance. The owner gets an email about a suspension, with the reason if there is one.',
    tag,
    rest: 'PATCH /operator/v1/projects/{project_id}',
    scope: 'full',
    input: z.object({
      project_id,
      name: name.optional(),
      owner_email: owner_email.optional(),
      plan: z.enum(planNames).optional(),
      suspended: z.boolean().optional(),
      suspended_reason: line(maxSuspendedReasonLength)
        .nullable()
        .optional()
        .describe('Shown to the project; null removes it, and so does resuming the project.'),
      form_balance_add: z.int().min(-1_000_000).max(1_000_000).optional(),
    }),
    example: { plan: 'pro' },
    load: projectById,
    output: Project,
    errors: [400, 409],
    handler: async (ctx, { project_id, ...change }) => {
      if (change.name !== undefined) requireVisible(change.name)
      return projectView(await updateProject(ctx, project_id, change))
    },
  }),
  operation({
    id: 'erase_project',
    title: 'Erase a project',
    summary:
      'Erases a project with everything it owns: its keys stop working and its sites stop answering at once, then its sites are removed one by one, and it with the last. There is no trash. Until then the project is listed as erasing. The subdomains stay reserved for 30 days.',
    tag,
    rest: 'DELETE /operator/v1/projects/{project_id}',
    scope: 'full',
    input: z.object({ project_id, confirm: z.boolean().default(false).describe('Must be true.') }),
    load: projectById,
    output: Ok,
    errors: [400],
    handler: async (ctx, { project_id: id, confirm }, { name }) => {
      if (!confirm)
        throw invalid(`the project ${name} would be erased for good; repeat with confirm=true`, 'confirmation_required')
      await eraseProject(ctx, id)
      return { ok: true as const }
    },
  }),
  operation({
    id: 'create_key',
    title: 'Create a key',
    summary: 'Creates a key of a project. It is shown only once.',
    tag,
    rest: 'POST /operator/v1/projects/{project_id}/keys',
    scope: 'full',
    input: z.object({ project_id, name, scope: z.enum(scopes) }),
    example: { name: 'CI', scope: 'editor' },
    load: projectById,
    output: z.object({ id: z.string(), name: z.string(), scope: z.enum(scopes), key: z.string() }).meta({ id: 'NewKey' }),
    errors: [400, 409],
    handler: async (ctx, input, project) => {
      requireVisible(input.name)
      if (project.erasing) throw conflict('the project is being erased')
      const { id, name, scope, key } = await createKey(ctx, input)
      return { id, name, scope, key }
    },
  }),
  operation({
    id: 'list_keys',
    title: 'List keys',
    summary: 'Lists the live keys of a project, without their secrets.',
    tag,
    rest: 'GET /operator/v1/projects/{project_id}/keys',
    scope: 'full',
    input: z.object({ project_id }),
    load: projectById,
    output: z.array(Key),
    lists: [{ key: 'id' }],
    handler: async (ctx, { project_id: id }) => Listing.of(readKeys(ctx.db, id), (rows) => rows.map(keyView)),
  }),
  operation({
    id: 'revoke_key',
    title: 'Revoke a key',
    summary: 'Revokes a key, which stops working at once.',
    tag,
    rest: 'DELETE /operator/v1/projects/{project_id}/keys/{key_id}',
    scope: 'full',
    input: z.object({ project_id, key_id: z.string().regex(/^[A-Za-z0-9]{8}$/) }),
    load: projectById,
    output: Ok,
    handler: async (ctx, { project_id: id, key_id }) => {
      await revokeKey(ctx, id, key_id)
      return { ok: true as const }
    },
  }),
]
