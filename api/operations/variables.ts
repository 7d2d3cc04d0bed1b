import { z } from 'zod'
import { maxVariableBytes, maxVariables, variableContexts, variableName } from '../../core/variables.ts'
import { deleteVariable, readVariables, setVariable, type Variable as VariableRow } from '../../services/sites/variables.ts'
import { operation } from '../operation.ts'
import { isoTime, Ok, site_id, time } from '../views/fields.ts'
import { siteOfCaller } from '../views/site.ts'

const tag = 'Sites'

const Variable = z
  .object({
    name: z.string(),
    value: z.string().nullable().describe('Null for a secret, which is never shown again.'),
    secret: z.boolean(),
    contexts: z.array(z.enum(variableContexts)).max(variableContexts.length).describe('The builds that get it.'),
    updated_at: time,
  })
  .meta({ id: 'Variable' })

const view = ({ name, value, secret, contexts, updated_at }: VariableRow): z.input<typeof Variable> => ({
  name,
  value: secret ? null : (value ?? null),
  secret,
  contexts: [...contexts],
  updated_at: isoTime(updated_at),
})

// an invalid one is a 400, not a 422
const name = z
  .string()
  .meta({ minLength: 1, maxLength: 128, pattern: variableName.source })
  .describe('The name, such as API_TOKEN.')

export const list_env = operation({
  id: 'list_env',
  title: 'List variables',
  summary: 'Lists the variables that builds of a site get, by name. The values of secrets are never shown.',
  tag,
  rest: 'GET /api/v1/sites/{site_id}/env',
  tool: { readOnly: true },
  scope: 'readonly',
  input: z.object({ site_id }),
  load: siteOfCaller,
  output: z.array(Variable).max(maxVariables),
  handler: async (ctx, { site_id }) => (await readVariables(ctx, site_id)).map(view),
})

export const set_env = operation({
  id: 'set_env',
  title: 'Set a variable',
  summary: 'Sets a variable for the next builds of a site, or replaces it. Builds of forks get none.',
  tag,
  rest: 'PUT /api/v1/sites/{site_id}/env/{name}',
  tool: { idempotent: true },
  scope: 'editor',
  input: z.object({
    site_id,
    name,
    value: z
      .string()
      .meta({ maxLength: maxVariableBytes, pattern: '^[^\\u0000]*$' })
      .describe('At most 32 KB; all values of a site together at most 64 KB.'),
    secret: z.boolean().default(false).describe('A secret is never shown again, and is masked in logs and errors.'),
    contexts: z
      .array(z.enum(variableContexts))
      .min(1)
      .max(10)
      .default([...variableContexts])
      .describe('production: deploys that go live, of archives and of the connected branch. preview: all others, but of forks.'),
  }),
  example: { value: 'https://api.example.com', contexts: ['production'] },
  load: siteOfCaller,
  whenTrashed: 'refuse',
  output: Variable,
  errors: [400, 409],
  handler: async (ctx, { name, value, secret, contexts }, site) =>
    view(await setVariable(ctx, site, { name, value, secret, contexts })),
})

export const delete_env = operation({
  id: 'delete_env',
  title: 'Delete a variable',
  summary: 'Deletes a variable of a site: its next builds do not get it.',
  tag,
  rest: 'DELETE /api/v1/sites/{site_id}/env/{name}',
  tool: { destructive: true },
  scope: 'editor',
  input: z.object({ site_id, name }),
  load: siteOfCaller,
  output: Ok,
  handler: async (ctx, { name }, site) => {
    await deleteVariable(ctx, site, name)
    return { ok: true as const }
  },
})
