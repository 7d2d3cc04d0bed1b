import { z } from 'zod'
import { planNames } from '../../core/plans.ts'
import { scopes, scopesOf } from '../../core/scopes.ts'
import { operation } from '../operation.ts'
import { isoTimeOrNull, time } from '../views/fields.ts'

export const whoami = operation({
  id: 'whoami',
  title: 'Get the project and the scopes of the key',
  summary: 'Gets the project and the scopes of the key.',
  tag: 'Session',
  rest: 'GET /api/v1/whoami',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({}),
  output: z
    .object({
      project_id: z.uuid(),
      project_name: z.string(),
      plan: z.enum(planNames),
      suspended: z.boolean().describe('Whether the operator has suspended the project.'),
      suspended_reason: z.string().nullable().describe('What the operator gave as the reason.'),
      scopes: z.array(z.enum(scopes)).max(scopes.length).describe('Every scope of the key; each includes the lower ones.'),
      key: z.object({ id: z.string(), name: z.string(), scope: z.enum(scopes), last_used_at: time.nullable() }),
    })
    .meta({ id: 'Session' }),
  handler: async ({ caller }) => ({
    project_id: caller.project_id,
    project_name: caller.project_name,
    plan: caller.plan,
    suspended: caller.suspended,
    suspended_reason: caller.suspended_reason,
    scopes: scopesOf(caller.scope),
    key: {
      id: caller.key.id,
      name: caller.key.name,
      scope: caller.scope,
      last_used_at: isoTimeOrNull(caller.key.last_used_at),
    },
  }),
})
