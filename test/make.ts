import { randomBytes } from 'node:crypto'
import { type OpenedPreview, openBranchPreview } from '../services/previews/branch-previews.ts'
import { transact } from '../services/transact.ts'
import { tarGz } from './infra/archives.ts'
import type { TestProject, World } from './world.ts'

export const randomName = (prefix = 'site') => `${prefix}-${randomBytes(6).toString('hex')}`

/** A site in the project, at a random subdomain that every plan allows. */
export async function makeSite(w: World, project: TestProject): Promise<any> {
  const { status, body } = await w.call('POST /api/v1/sites', {
    key: project.key,
    json: { name: 'A site', subdomain: randomName() },
  })
  if (status !== 200) throw new Error(JSON.stringify(body))
  return body
}

/** The preview of a branch as a webhook opens it; `change` tells more of it. */
export function openPreview(
  w: World,
  project: TestProject,
  siteId: string,
  change: Partial<OpenedPreview> = {},
  now = new Date(),
) {
  const ref = change.ref ?? 'feature'
  const none = { pull_request: null, from_fork: false, head_commit: null }
  const opened = { site_id: siteId, project_id: project.id, ref, fetch_ref: `refs/heads/${ref}`, branch: ref, ...none, ...change }
  return transact(w, (tx) => openBranchPreview(tx, opened, now))
}

/** An archive of files with these contents. */
export const archiveOf = (files: Readonly<Record<string, string>>) =>
  tarGz(Object.entries(files).map(([name, data]) => ({ name, data })))

export const page = (text: string) => ({ path: 'index.html', content: `<!doctype html><title>${text}</title>${text}` })

/** Sends the files and waits until the deploy has ended. */
export async function deployFiles(
  w: World,
  project: TestProject,
  siteId: string,
  files: object[],
  activate = true,
): Promise<any> {
  const { status, body } = await w.call(`POST /api/v1/sites/${siteId}/deploy-files`, {
    key: project.key,
    json: { files, activate },
  })
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`)
  return await w.ended(body.id, project.key)
}

/** Moments for a race with what is due: each is later than one that was in time and earlier than one that was late, so they draw near. */
export function aroundTheEnd(earliestMs = -50, latestMs = 2000) {
  let [early, late] = [earliestMs, latestMs]
  return {
    /** Waits for the next one. */
    async next(due: string): Promise<void> {
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, Date.parse(due) + (early + late) / 2 - Date.now())))
    },
    tell(inTime: boolean): void {
      const now = (early + late) / 2
      if (inTime) early = now
      else late = now
    },
  }
}

/** Gives a project blobs that it has not sent: there are no objects for them. */
export async function insertBlobs(
  { db }: Pick<World, 'db'>,
  { id }: Pick<TestProject, 'id'>,
  blobs: readonly { sha256: string; size: number; deploys: number; staged: boolean }[],
): Promise<void> {
  await db
    .insertInto('blobs')
    .values(blobs.map((blob) => ({ project_id: id, ...blob })))
    .execute()
  const bytes = blobs.reduce((sum, { size }) => sum + size, 0)
  await db
    .updateTable('projects')
    .set((eb) => ({ blob_bytes: eb('blob_bytes', '+', bytes) }))
    .where('id', '=', id)
    .execute()
}

/** The `plinth.json` of a source that this command builds, without npm. */
export const builtBy = (command: string): string => JSON.stringify({ build: { build_command: command } })
