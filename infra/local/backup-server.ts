import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { takeBaseBackup } from '../db/base-backup.ts'
import { copyTree, exists } from './backup-folder.ts'

/** What belongs to the running process, and what the recovery makes again. */
const notCopied =
  /^(postmaster\.(pid|opts)|(pg_wal|pg_replslot|pg_dynshmem|pg_notify|pg_serial|pg_snapshots|pg_stat_tmp|pg_subtrans)\/.*)$/
/** The content of a table or an index, or the map of its free space. */
const content = /^(base\/\d+\/\d+)(_fsm|_vm)?(\.\d+)?$/

/**
 * Copies the folder of a running server to a new folder. The content of tables that are not logged is left out, as `pg_basebackup` does: the
 * recovery empties them, and the salts of visitors are in no backup.
 * @param copyRest copies what the database refers to
 */
export async function copyServer(
  server: { readonly dir: string; readonly url: string },
  to: string,
  copyRest: () => Promise<void>,
): Promise<void> {
  await takeBaseBackup(server.url, {
    copyData: () => copyTree(server.dir, to, async (path) => !notCopied.test(path) && !(await isUnlogged(server.dir, path))),
    writeLabel: (label) => writeFile(join(to, 'backup_label'), label),
    copyLog: () => copyTree(join(server.dir, 'pg_wal'), join(to, 'pg_wal')),
    copyRest,
  })
}

/** PostgreSQL keeps what a table that is not logged begins with in a file of its own. */
async function isUnlogged(dir: string, path: string): Promise<boolean> {
  const [, relation] = content.exec(path) ?? []
  return relation !== undefined && (await exists(join(dir, `${relation}_init`)))
}
