import pg from 'pg'

/** The advisory lock of a backup's session: the sweeper removes nothing while it is held. */
export const backupLock = 5_377_002

/** The steps of copying a running server, in this order. */
export interface BaseBackupSteps {
  /** Copies everything but `pg_wal`. Files may change, appear and vanish in the meantime. */
  readonly copyData: () => Promise<void>
  /** Writes the file `backup_label` of the copy, which tells the server where to begin its recovery. */
  readonly writeLabel: (label: string) => Promise<void>
  /** Copies the folder `pg_wal`; the server keeps everything that the recovery needs until this ends. */
  readonly copyLog: () => Promise<void>
  /** Copies the files that the database refers to; the sweeper removes none of them until the copy is complete. */
  readonly copyRest: () => Promise<void>
}

/**
 * Copies a running server by PostgreSQL's low-level interface of base backups (documentation, 25.3.4): its own `pg_basebackup` and `pg_dump`
 * are not part of the embedded server. A process that is killed leaves nothing behind in the server.
 */
export async function takeBaseBackup(url: string, steps: BaseBackupSteps): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5000, application_name: 'plinth backup' })
  await client.connect()
  try {
    await client.query('select pg_advisory_lock($1)', [backupLock])
    // lives as long as this session
    await client.query('select pg_create_physical_replication_slot($1, true, true)', [`plinth_backup_${process.pid}`])
    await client.query(`select pg_backup_start('plinth', true)`)
    await steps.copyData()
    const { rows } = await client.query<{ labelfile: string }>('select labelfile from pg_backup_stop(false)')
    await steps.writeLabel(rows[0]?.labelfile ?? '')
    await steps.copyLog()
    await steps.copyRest()
  } finally {
    await client.end()
  }
}
