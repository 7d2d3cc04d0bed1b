import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { hashPreviewToken } from '../../infra/crypto/preview-tokens.ts'
import { deriveRunnerToken } from '../../infra/crypto/runner-token.ts'
import { closeBranchPreview, showBranchPreview } from '../../services/previews/branch-previews.ts'
import { transact } from '../../services/transact.ts'
import { archiveOf, makeSite, openPreview } from '../make.ts'
import { secretKey, type TestProject, type World, world } from '../world.ts'

// What a runner reads for a build. Nothing is built: the state of the deploy is written into its row.

let w: World
let owner: TestProject
let site: any
let deploy: any
beforeAll(async () => {
  w = await world({ worker: false })
  owner = await w.project('enterprise')
})
afterAll(() => w?.[Symbol.asyncDispose]())
beforeEach(async () => {
  site = await makeSite(w, owner)
  for (const [name, json] of Object.entries({
    BOTH: { value: 'both' },
    LIVE: { value: 'live', contexts: ['production'], secret: true },
    PREVIEW: { value: 'preview', contexts: ['preview'], secret: true },
  }))
    await w.call(`PUT /api/v1/sites/${site.id}/env/${name}`, { key: owner.key, json })
  const sent = { key: owner.key, bytes: archiveOf({ 'index.html': 'x' }), type: 'application/gzip' }
  deploy = (await w.call(`POST /api/v1/sites/${site.id}/deploys`, sent)).body
  await change({ run_id: 'run', turn_at: new Date() })
})

const change = (row: object) => w.db.updateTable('deploys').set(row).where('id', '=', deploy.id).execute()
const token = deriveRunnerToken(secretKey)
async function read({ key = token, attempt = '1', run_id = 'run', id = deploy.id } = {}) {
  const { attempt: own } = await w.db
    .selectFrom('deploys')
    .select('attempt')
    .where('id', '=', deploy.id)
    .executeTakeFirstOrThrow()
  const query = new URLSearchParams({ attempt: attempt === '1' ? String(own) : attempt, run_id })
  return await w.call(`GET /internal/builds/${id}/variables?${query.toString()}`, { key })
}

const provided = () => ({ CI: 'true', PLINTH: '1', PLINTH_SITE: site.subdomain, PLINTH_DEPLOY_ID: deploy.id })
const git = { commit: 'a'.repeat(40), ref: 'main', message: 'm', author: 'a' }

describe('E30: a build gets the variables of its context', () => {
  test('production: an archive that goes live', async () => {
    const values = { ...provided(), BOTH: 'both', LIVE: 'live', PLINTH_CONTEXT: 'production', PLINTH_URL: site.url }
    expect((await read()).body).toEqual({ values, secrets: ['live'] })
  })

  test('production: the connected branch', async () => {
    await change({ source_kind: 'git', git })
    const { values } = (await read()).body
    expect(values).toMatchObject({ LIVE: 'live', PLINTH_BRANCH: 'main', PLINTH_COMMIT: git.commit, PLINTH_CONTEXT: 'production' })
  })

  test('preview: an archive that does not go live', async () => {
    await change({ activate: false })
    const values = { ...provided(), BOTH: 'both', PREVIEW: 'preview', PLINTH_CONTEXT: 'preview' }
    expect((await read()).body).toEqual({ values, secrets: ['preview'] })
  })

  test('preview: another branch of the connected repository', async () => {
    const { id } = await openPreview(w, owner, site.id, { ref: 'feature' })
    await change({ activate: false, source_kind: 'git', git: { ...git, ref: 'feature' }, git_preview_id: id })
    const { values, secrets } = (await read()).body
    expect([values.PREVIEW, values.LIVE, values.PLINTH_BRANCH, secrets]).toEqual(['preview', undefined, 'feature', ['preview']])
  })

  test('preview: the address of the branch preview is known before its link is issued, and is that of the link', async () => {
    const { id } = await openPreview(w, owner, site.id, { ref: 'feature' })
    await change({ activate: false, source_kind: 'git', git: { ...git, ref: 'feature' }, git_preview_id: id })
    const before = (await read()).body.values.PLINTH_URL
    const shown = { id: deploy.id, site_id: site.id, seq: deploy.seq ?? '1', git_preview_id: id }
    const hashOf = (preview: string, generation: number) => hashPreviewToken(w.previewTokens(preview, generation))
    expect(await transact(w, (tx) => showBranchPreview(tx, shown, hashOf, new Date()))).toBe('shown')
    const [{ url }] = (await w.call(`GET /api/v1/sites/${site.id}/git/previews`, { key: owner.key })).body
    const { protocol, host, pathname } = new URL(url)
    expect(before).toBe(`${protocol}//${pathname.replaceAll('/', '')}.${host}`)
    expect((await read()).body.values.PLINTH_URL).toBe(before)

    await transact(w, (tx) => closeBranchPreview(tx, { site_id: site.id, ref: 'feature' }, new Date()))
    expect((await read()).body.values.PLINTH_URL).not.toBe(before)
  })

  test('none: a fork, and a git deploy that may have been of one', async () => {
    const { id } = await openPreview(w, owner, site.id, { ref: 'pull:7', branch: 'theirs', from_fork: true })
    const own = { ...provided(), PLINTH_CONTEXT: 'preview', PLINTH_COMMIT: git.commit }
    await change({ activate: false, source_kind: 'git', git: { ...git, ref: 'pull:7' }, git_preview_id: id })
    expect((await read()).body).toEqual({ values: { ...own, PLINTH_BRANCH: 'theirs' }, secrets: [] })
    await change({ git_preview_id: null })
    expect((await read()).body).toEqual({ values: { ...own, PLINTH_BRANCH: 'pull:7' }, secrets: [] })
  })
})

describe('E30: variables are answered to the runner that has the build', () => {
  test('with its token only', async () => {
    expect((await read({ key: '' })).status).toBe(401)
    expect((await read({ key: owner.key })).status).toBe(401)
    expect((await read({ key: `${token}x` })).status).toBe(401)
    expect((await read()).status).toBe(200)
  })

  test.each<[string, object]>([
    ['has no permit', { turn_at: null }],
    ['is another run', { run_id: 'other' }],
    ['is not claimed', { run_id: null }],
    ['is another attempt', { attempt: 7_000 }],
    ['has ended', { status: 'failed' }],
    ['is live', { status: 'active' }],
    ['has no source', { source_sha256: null }],
  ])('not while the build %s', async (what, row) => {
    await change(row)
    expect((await read(what === 'is another attempt' ? { attempt: '3' } : {})).status).toBe(404)
  })

  test('not for what is no build', async () => {
    expect((await read({ id: 'x' })).status).toBe(404)
    expect((await read({ id: site.id })).status).toBe(404)
    expect((await read({ run_id: '' })).status).toBe(404)
  })

  test('a value that cannot be opened any more fails the build with a text for its owner', async () => {
    const value_sealed = 'v1.00000000.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'
    await w.db.updateTable('site_variables').set({ value_sealed }).where('name', '=', 'LIVE').execute()
    expect(await read()).toMatchObject({ status: 409, body: { message: /^the variable LIVE cannot be read/ } })
  })
})
