import { type Selectable, type SqlBool, sql } from 'kysely'
import { notFound } from '../../core/errors.ts'
import type { PlanName } from '../../core/plans.ts'
import type { Scope } from '../../core/scopes.ts'
import { makeKey } from '../../infra/crypto/project-keys.ts'
import { readInPages } from '../../infra/db/batches.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'
import type { Services } from '../services.ts'

export type KeyRow = Selectable<DB['keys']>

/** A live key with the facts about its project that requests need. */
export interface KeyWithProject {
  readonly id: string
  readonly name: string
  readonly scope: Scope
  readonly secret_sha256: Buffer
  readonly last_used_at: Date | null
  readonly project_id: string
  readonly project_name: string
  readonly plan: PlanName
  readonly suspended: boolean
  readonly suspended_reason: string | null
}

/** Undefined when the key is unknown or revoked. */
export async function findKey(db: Db, id: string): Promise<KeyWithProject | undefined> {
  return await db
    .selectFrom('keys')
    .innerJoin('projects', 'projects.id', 'keys.project_id')
    .select(['keys.id', 'keys.name', 'keys.scope', 'keys.secret_sha256', 'keys.last_used_at', 'keys.project_id'])
    .select(['projects.name as project_name', 'projects.plan', 'projects.suspended', 'projects.suspended_reason'])
    .where('keys.id', '=', id)
    .where('keys.revoked_at', 'is', null)
    .executeTakeFirst()
}

/** Creates a key of the project. Its text is shown once, because only the hash of its secret is stored. */
export async function createKey(
  { db, log }: Services,
  { project_id, name, scope }: Pick<KeyRow, 'project_id' | 'name' | 'scope'>,
): Promise<KeyRow & { readonly key: string }> {
  const { key, ...made } = makeKey()
  const row = await db
    .insertInto('keys')
    .values({ ...made, project_id, name, scope })
    .returningAll()
    .executeTakeFirstOrThrow()
  log.info({ project_id, key_id: row.id, scope }, 'key created')
  return { ...row, key }
}

/** Live keys, oldest first, in batches. */
export const readKeys = (db: Db, projectId: string) =>
  readInPages<KeyRow>(({ after, limit }) =>
    db
      .selectFrom('keys')
      .selectAll()
      .where('project_id', '=', projectId)
      .where('revoked_at', 'is', null)
      .$if(after !== undefined, (query) =>
        query.where(sql<SqlBool>`(created_at, id) > (select created_at, id from keys where id = ${after?.id})`),
      )
      .orderBy('created_at')
      .orderBy('id')
      .limit(limit)
      .execute(),
  )

/** Revokes a key, which stops working at once. @throws AppError `not_found` when the project has no such live key */
export async function revokeKey({ db, log, clock }: Services, project_id: string, key_id: string): Promise<void> {
  const result = await db
    .updateTable('keys')
    .set({ revoked_at: clock() })
    .where('project_id', '=', project_id)
    .where('id', '=', key_id)
    .where('revoked_at', 'is', null)
    .executeTakeFirst()
  if (result.numUpdatedRows === 0n) throw notFound('the project has no live key with this id')
  log.info({ project_id, key_id }, 'key revoked')
}

export async function touchKey(db: Db, id: string, now: Date): Promise<void> {
  await db.updateTable('keys').set({ last_used_at: now }).where('id', '=', id).execute()
}
