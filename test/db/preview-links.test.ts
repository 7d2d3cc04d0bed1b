import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Db, type OpenedDatabase, openDatabase } from '../../infra/db/database.ts'
import { createDatabase, type TestDatabase } from '../database.ts'

// What PostgreSQL itself refuses of a preview link, whatever a query asks for.

let database: TestDatabase
let opened: OpenedDatabase
let db: Db
let site_id: string
let project_id: string
beforeAll(async () => {
  database = await createDatabase()
  opened = openDatabase(database.url)
  db = opened.db
  const project = { name: 'P', owner_email: 'owner@example.com', plan: 'pro' } as const
  project_id = (await db.insertInto('projects').values(project).returning('id').executeTakeFirstOrThrow()).id
  const site = { project_id, name: 'S', subdomain: 'preview-links' }
  site_id = (await db.insertInto('sites').values(site).returning('id').executeTakeFirstOrThrow()).id
})
afterAll(async () => {
  await opened?.[Symbol.asyncDispose]()
  await database?.[Symbol.asyncDispose]()
})

let seq = 0
async function insertDeploy(): Promise<string> {
  const row = { site_id, project_id, seq: ++seq, source_kind: 'files', activate: false, is_preview: true } as const
  return (await db.insertInto('deploys').values(row).returning('id').executeTakeFirstOrThrow()).id
}
async function insertBranch(): Promise<string> {
  const ref = `branch-${++seq}`
  const row = { site_id, project_id, ref, fetch_ref: ref, branch: ref, from_fork: false, approved: true, updated_at: new Date() }
  return (await db.insertInto('git_previews').values(row).returning('id').executeTakeFirstOrThrow()).id
}
const issued = (token_sha256: string) => ({ token_sha256, issued_at: new Date() })
const insertLink = (link: { id: string; git_preview_id?: string; deploy_id?: string; token_sha256?: string; issued_at?: Date }) =>
  db
    .insertInto('preview_links')
    .values({ ...link, site_id })
    .execute()

test('a token opens one link', async () => {
  const [one, other] = [await insertDeploy(), await insertDeploy()]
  await insertLink({ id: one, deploy_id: one, ...issued('a') })
  await expect(insertLink({ id: other, deploy_id: other, ...issued('a') })).rejects.toThrow('preview_links_token_sha256_key')
})

test('a deploy and a branch have one link each', async () => {
  const [deploy, branch] = [await insertDeploy(), await insertBranch()]
  await insertLink({ id: deploy, deploy_id: deploy })
  await expect(insertLink({ id: deploy, deploy_id: deploy })).rejects.toThrow('preview_links_pkey')
  await insertLink({ id: branch, git_preview_id: branch })
  await expect(insertLink({ id: branch, git_preview_id: branch })).rejects.toThrow('preview_links_pkey')
})

test('a link has the id of what it belongs to', async () => {
  const [deploy, other, branch] = [await insertDeploy(), await insertDeploy(), await insertBranch()]
  await expect(insertLink({ id: deploy, deploy_id: other })).rejects.toThrow('check constraint')
  await expect(insertLink({ id: deploy })).rejects.toThrow('check constraint')
  await expect(insertLink({ id: deploy, git_preview_id: branch, deploy_id: deploy })).rejects.toThrow('check constraint')
})

test('a link with a token shows a deploy and was issued at some time', async () => {
  const [deploy, branch] = [await insertDeploy(), await insertBranch()]
  await expect(insertLink({ id: branch, git_preview_id: branch, ...issued('b') })).rejects.toThrow('check constraint')
  await expect(insertLink({ id: deploy, deploy_id: deploy, token_sha256: 'b' })).rejects.toThrow('check constraint')
})

test('a deploy that a link shows is not deleted; a branch takes its link with it', async () => {
  const [deploy, branch] = [await insertDeploy(), await insertBranch()]
  await insertLink({ id: branch, git_preview_id: branch, deploy_id: deploy, ...issued('c') })
  await expect(db.deleteFrom('deploys').where('id', '=', deploy).execute()).rejects.toThrow('foreign key')
  await db.deleteFrom('git_previews').where('id', '=', branch).execute()
  expect(await db.selectFrom('preview_links').select('id').where('id', '=', branch).execute()).toEqual([])
  await db.deleteFrom('deploys').where('id', '=', deploy).execute()
})
