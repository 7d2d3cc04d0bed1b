/** Enough of a row to tell whether it has changed. */
export interface RowVersion {
  readonly id: string
  readonly version: number
  readonly changed_at: Date
}

/** Rows that a process keeps in memory, each with a version that grows with its changes. */
export interface Table {
  /** Says where the rows come from. Those of another incarnation stay until they are replaced, which every version does. */
  useIncarnation(incarnation: string): void
  /** Undefined when the row is not known, 0 when it is of another incarnation. */
  versionOf(id: string): number | undefined
  /** Forgets all rows but these, because the others have been deleted. */
  keepOnly(ids: ReadonlySet<string>): void
}

/** Forgets the rows that are not among all that there are, and reads those whose version is higher than the known one. */
export async function readAll(
  table: Table,
  rows: readonly RowVersion[],
  batchSize: number,
  read: (ids: readonly string[]) => Promise<unknown>,
): Promise<void> {
  // first of all, so that what was removed is not served while the others are read
  table.keepOnly(new Set(rows.map(({ id }) => id)))
  await readHigher(table, rows, batchSize, read)
}

/** Reads the rows whose version is higher than the known one, a batch at a time. */
export async function readHigher(
  table: Table,
  rows: readonly RowVersion[],
  batchSize: number,
  read: (ids: readonly string[]) => Promise<unknown>,
): Promise<void> {
  const wanted = rows.filter(({ id, version }) => (table.versionOf(id) ?? 0) < version).map(({ id }) => id)
  for (let i = 0; i < wanted.length; i += batchSize) await read(wanted.slice(i, i + batchSize))
}

/** When the latest of the rows changed, in milliseconds; 0 for none. */
export const newestOf = (rows: readonly RowVersion[]): number =>
  rows.reduce((newest, { changed_at }) => Math.max(newest, changed_at.getTime()), 0)
