import { sql } from 'kysely'
import type { Db } from '../../infra/db/database.ts'
import type { Tx } from '../transact.ts'

/** Counts pending bytes for the project until the row is deleted. Returns the row's id. */
export async function insertUpload(db: Db, upload: { project_id: string; bytes: number; started_at: Date }): Promise<string> {
  const { id } = await db.insertInto('uploads').values(upload).returning('id').executeTakeFirstOrThrow()
  return id
}

export async function setUploadBytes(db: Db, id: string, bytes: number): Promise<void> {
  await db.updateTable('uploads').set({ bytes }).where('id', '=', id).execute()
}

/** False when it was deleted before. */
export async function deleteUpload(db: Db | Tx, id: string): Promise<boolean> {
  const { numDeletedRows } = await db.deleteFrom('uploads').where('id', '=', id).executeTakeFirst()
  return numDeletedRows > 0n
}

/** Deletes the rows of requests that began before the instant, because their process has died. Returns their number. */
export async function deleteUploadsBefore(db: Db, before: Date): Promise<number> {
  const { numDeletedRows } = await db.deleteFrom('uploads').where('started_at', '<', before).executeTakeFirst()
  return Number(numDeletedRows)
}

/**
 * The pending bytes of the project, at most.
 * @param upload counts only this one and those that began earlier: of several that do not fit together, the first ones are taken
 */
export const uploadingBytes = (projectId: string, upload?: string) => sql<number>`(
  select coalesce(sum(bytes), 0) from uploads where project_id = ${projectId} ${upload === undefined ? sql`` : sql`and id <= ${upload}`}
)::bigint`
