import type { Selectable } from 'kysely'
import type { PlanName } from '../../core/plans.ts'
import type { Scope } from '../../core/scopes.ts'
import type { Db } from '../../infra/db/database.ts'
import type { DB } from '../../infra/db/schema.ts'

export type KeyRow = Selectable<DB['keys']>

/** A live key with what its requests need to know of the project. */
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
}

/** Undefined when the key is unknown or revoked. */
export function findKey(db: Db, id: string): Promise<KeyWithProject | undefined> {
  return db
    .selectFrom('keys')
    .innerJoin('projects', 'projects.id', 'keys.project_id')
    .select(['keys.id', 'keys.name', 'keys.scope', 'keys.secret_sha256', 'keys.last_used_at', 'keys.project_id'])
    .select(['projects.name as project_name', 'projects.plan', 'projects.suspended'])
    .where('keys.id', '=', id)
    .where('keys.revoked_at', 'is', null)
    .executeTakeFirst()
}

export function insertKey(
  db: Db,
  key: { id: string; project_id: string; name: string; scope: Scope; secret_sha256: Buffer },
): Promise<KeyRow> {
  return db.insertInto('keys').values(key).returningAll().executeTakeFirstOrThrow()
}

/** Live keys, oldest first. */
export function listKeys(db: Db, projectId: string): Promise<KeyRow[]> {
  return db
    .selectFrom('keys')
    .selectAll()
    .where('project_id', '=', projectId)
    .where('revoked_at', 'is', null)
    .orderBy('created_at')
    .orderBy('id')
    .execute()
}

/** False when the project has no such live key. */
export async function revokeKey(db: Db, projectId: string, id: string, now: Date): Promise<boolean> {
  const result = await db
    .updateTable('keys')
    .set({ revoked_at: now })
    .where('project_id', '=', projectId)
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

export async function touchKey(db: Db, id: string, now: Date): Promise<void> {
  await db.updateTable('keys').set({ last_used_at: now }).where('id', '=', id).execute()
}
