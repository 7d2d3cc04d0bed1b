import { Readable } from 'node:stream'
import { unavailable } from '../../core/errors.ts'
import { sweepGraceMs } from '../../core/limits.ts'
import type { ObjectBatch } from '../../infra/cas/cas.ts'
import { type ProjectRow, withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'
import { markRepaired } from './health.ts'
import { releaseObjects } from './released-objects.ts'
import { keepObjects, publishObjects } from './stored-objects.ts'
import { removeObjects } from './swept-objects.ts'
import { deleteUpload, insertUpload, setUploadBytes } from './uploads.ts'

/** The bytes of an upload, to be read once. `expectedBytes` is the announced length. */
export interface Upload {
  readonly stream: Readable
  readonly expectedBytes: number | undefined
}

/**
 * The objects of a request, until it is accepted or refused. Until then its bytes count for the project, and its objects are invisible. Disposal
 * removes objects that were not accepted at once; `removeAbandonedUploads` does so for a process that was killed.
 */
export interface PendingUpload extends AsyncDisposable {
  /** Its row in `uploads`. */
  readonly id: string
  readonly objects: ObjectBatch
  /** Returns the same bytes; without an announced length, they count as they arrive. */
  receive(upload: Upload): Readable
  /**
   * Accepts it: the objects are published, then `work` refuses or writes the rows that need them, in one transaction under the project's lock, in
   * which the bytes no longer count as pending. What was published for nothing is removed.
   * @throws AppError `unavailable` when it took longer than uploads are kept, and what `work` throws
   */
  accept<Result>(work: (tx: Tx, project: ProjectRow) => Promise<Result>): Promise<Result>
}

/** The first charge of a body without an announced length. It doubles each time it is reached. */
const firstStepBytes = 1024 * 1024

/** The charge of an upload before its first byte has arrived. */
export const chargedBytes = ({ expectedBytes }: Pick<Upload, 'expectedBytes'>) => expectedBytes ?? firstStepBytes

/** @param bytes the size that counts for the project until it is accepted or refused */
export async function beginUpload(
  services: Services,
  { project_id, bytes }: { readonly project_id: string; readonly bytes: number },
): Promise<PendingUpload> {
  const { db, cas, clock, log } = services
  const id = await insertUpload(db, { project_id, bytes, started_at: clock() })
  let accepted = false
  const objects = cas.batch()

  /** Removes objects that were published although the transaction failed, unless a row needs them: refused uploads would fill the disk. */
  async function takeBack(): Promise<void> {
    const hashes = objects.written()
    if (hashes.length === 0) return
    const now = clock()
    // the sweeper does it when this process dies
    await transact(services, (tx) => releaseObjects(tx, hashes, { now, published: false }))
    const storedBefore = new Date((await cas.now()).getTime() + 1)
    const refused = hashes.map((sha256) => ({ sha256, storedBefore }))
    await removeObjects(services, refused, new Date(now.getTime() - sweepGraceMs))
  }

  async function* counted(stream: Readable): AsyncGenerator<Buffer> {
    let [received, charged] = [0, bytes]
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      received += chunk.length
      if (received > charged) {
        charged = 2 * received
        await setUploadBytes(db, id, charged)
      }
      yield chunk
    }
  }

  return {
    id,
    objects,
    receive: ({ stream, expectedBytes }) =>
      expectedBytes === undefined ? Readable.from(counted(stream), { objectMode: false }) : stream,
    async accept(work) {
      try {
        const seen = await publishObjects(services, objects)
        const published = [...seen.keys()]
        const run = async (tx: Tx, project: ProjectRow) => {
          if (!(await deleteUpload(tx, id))) throw tookTooLong()
          if (!(await keepObjects(tx, services, published))) throw removed()
          const worked = await work(tx, project)
          // an object that was damaged has been written again
          await markRepaired(tx, objects.written(), clock())
          return worked
        }
        const result = await withProject(services, project_id, run, seen)
        accepted = true
        return result
      } catch (error) {
        await takeBack().catch((failure: unknown) =>
          log.error({ err: failure, project_id }, 'objects of a refused upload stay for the sweeper'),
        )
        throw error
      }
    },
    async [Symbol.asyncDispose]() {
      await objects[Symbol.asyncDispose]()
      if (accepted) return
      // the row is removed after some minutes
      await deleteUpload(db, id).catch((error: unknown) => log.warn({ err: error, project_id }, 'row of an upload not deleted'))
    },
  }
}

const removed = () => unavailable('parts of the upload were removed in the meantime; send it again')
const tookTooLong = () => unavailable('the upload took too long; send it again')
