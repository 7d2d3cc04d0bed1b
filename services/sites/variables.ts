import { conflict, invalid, notFound } from '../../core/errors.ts'
import {
  maxVariables,
  maxVariablesBytes,
  refusalOfName,
  refusalOfValue,
  type VariableContext,
  variableContexts,
} from '../../core/variables.ts'
import { openIfPossible, seal } from '../../infra/crypto/seal.ts'
import type { Services } from '../services.ts'
import { transact } from '../transact.ts'
import { lockLiveSite, type SiteRow } from './sites.ts'

/** A variable of the builds of a site, with its value. */
export interface Variable {
  readonly name: string
  /** Undefined when it was sealed with an earlier secret key. */
  readonly value: string | undefined
  readonly secret: boolean
  readonly contexts: readonly VariableContext[]
  readonly updated_at: Date
}

type Site = Pick<SiteRow, 'id' | 'project_id'>

const place = (siteId: string, name: string) => ({ table: 'site_variables', id: `${siteId}/${name}`, column: 'value_sealed' })

/** All variables of a site with their values, by name. */
export async function readVariables({ db, keyring }: Pick<Services, 'db' | 'keyring'>, siteId: string): Promise<Variable[]> {
  const rows = await db.selectFrom('site_variables').selectAll().where('site_id', '=', siteId).orderBy('name').execute()
  return rows.map(({ value_sealed, name, secret, contexts, updated_at }) => {
    const value = openIfPossible(keyring, value_sealed, place(siteId, name))
    return { name, value, secret, contexts, updated_at }
  })
}

export interface NewVariable {
  readonly name: string
  readonly value: string
  readonly secret: boolean
  readonly contexts: readonly VariableContext[]
}

/**
 * Sets a variable, which replaces an earlier one of its name.
 * @throws AppError `invalid` for the name or the value; `conflict` when the site has too many or too large ones, or is in the trash
 */
export function setVariable(services: Services, { id: site_id, project_id }: Site, variable: NewVariable): Promise<Variable> {
  const { keyring, clock, log } = services
  const { name, value, secret } = variable
  const refusal = refusalOfName(name) ?? refusalOfValue(value)
  if (refusal) throw invalid(refusal)
  const contexts = variableContexts.filter((context) => variable.contexts.includes(context))
  const bytes = Buffer.byteLength(value)
  return transact(services, async (tx) => {
    await lockLiveSite(tx, project_id, site_id)
    const others = await tx
      .selectFrom('site_variables')
      .select((eb) => [eb.fn.countAll<number>().as('count'), eb.fn.coalesce(eb.fn.sum<number>('bytes'), eb.lit(0)).as('bytes')])
      .where('site_id', '=', site_id)
      .where('name', '<>', name)
      .executeTakeFirstOrThrow()
    if (others.count >= maxVariables)
      throw conflict(`the site has ${maxVariables} variables, as many as it may; delete one first`)
    if (others.bytes + bytes > maxVariablesBytes)
      throw conflict(
        `the values of all variables of a site may have ${maxVariablesBytes / 1024} KB together; shorten or delete some`,
      )
    const updated_at = clock()
    const value_sealed = seal(keyring, value, place(site_id, name))
    const row = { value_sealed, bytes, secret, contexts, updated_at }
    await tx
      .insertInto('site_variables')
      .values({ site_id, name, ...row })
      .onConflict((conflict) => conflict.columns(['site_id', 'name']).doUpdateSet(row))
      .execute()
    tx.afterCommit(() => log.info({ site_id, name }, 'variable set'))
    return { name, value, secret, contexts, updated_at }
  })
}

/** @throws AppError `not_found` */
export async function deleteVariable({ db, log }: Services, { id: site_id }: Site, name: string): Promise<void> {
  const { numDeletedRows } = await db
    .deleteFrom('site_variables')
    .where('site_id', '=', site_id)
    .where('name', '=', name)
    .executeTakeFirst()
  if (numDeletedRows === 0n) throw notFound('the site has no variable of this name; list_env shows them all')
  log.info({ site_id, name }, 'variable deleted')
}
