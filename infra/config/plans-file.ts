import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { defaultPlans, type PlanName, type Plans, planNames } from '../../core/plans.ts'
import { schemaText } from '../schema-text.ts'
import { ConfigError } from './error.ts'

const quotasFile = z.partialRecord(
  z.enum(planNames),
  z.strictObject(
    Object.fromEntries(Object.keys(defaultPlans.free).map((key) => [key, z.number().int().min(0).nullable().optional()])),
  ),
)

/**
 * The built-in plans with the quotas of a JSON file over them.
 * @throws ConfigError naming the file and the wrong member
 */
export function loadPlans(file: string): Plans {
  const parsed = quotasFile.safeParse(readJson(file), { error: schemaText })
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    throw new ConfigError(`PLINTH_PLANS_FILE ${file}: ${issue?.path.join('.') ?? ''} ${issue?.message ?? 'is not valid'}`)
  }
  const merge = (plan: PlanName) => ({ ...defaultPlans[plan], ...parsed.data[plan] })
  return Object.fromEntries(planNames.map((plan) => [plan, merge(plan)])) as unknown as Plans
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch (cause) {
    throw new ConfigError(`PLINTH_PLANS_FILE ${file} cannot be read as JSON`, { cause })
  }
}
