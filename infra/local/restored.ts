import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { exists } from './backup-folder.ts'

const markOf = (dataDir: string) => join(dataDir, 'restored')

/** Notes that the database of a data directory is one of a backup. To be called before it can be started. */
export const markRestored = (dataDir: string): Promise<void> => writeFile(markOf(dataDir), '')

/**
 * Signs out the visitors of all closed sites at the first start after a restore, before anything serves, and tells edges that still run to replace
 * all they know. A start that was killed repeats it.
 */
export async function endVisitsAfterRestore(dataDir: string, databaseUrl: string): Promise<void> {
  if (!(await exists(markOf(dataDir)))) return
  const [{ openDatabase }, { renewIncarnation }, { signOutAllVisitors }] = await Promise.all([
    import('../db/database.ts'),
    import('../db/incarnation.ts'),
    import('../db/sign-out-visitors.ts'),
  ])
  await using database = openDatabase(databaseUrl)
  await database.db.transaction().execute(async (tx) => {
    await signOutAllVisitors(tx)
    await renewIncarnation(tx)
  })
  await rm(markOf(dataDir))
}
