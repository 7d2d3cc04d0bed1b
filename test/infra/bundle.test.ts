import { appendFile, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { bundleWorkflowCode, type WorkflowSources } from '../../infra/temporal/bundle.ts'

let dir: string
let cacheDir: string
let sources: WorkflowSources

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'plinth-bundle-'))
  cacheDir = join(dir, 'cache')
  const folder = join(dir, 'definitions')
  sources = { entry: join(folder, 'index.ts'), folders: [folder] }
  await mkdir(folder)
  // the bundle contains the SDK
  await symlink(join(import.meta.dirname, '..', '..', 'node_modules'), join(dir, 'node_modules'))
  await writeFile(sources.entry, `export async function hello(): Promise<string> { return 'first version' }\n`)
})
afterEach(() => rm(dir, { recursive: true, force: true }))

test('the bundle of workflows is made once, and again when a source has changed', async () => {
  const { code } = await bundleWorkflowCode(sources, cacheDir)
  expect(code).toContain('first version')
  const [kept = ''] = await readdir(join(cacheDir, 'workflows'))
  await appendFile(join(cacheDir, 'workflows', kept), '// kept')
  expect(await bundleWorkflowCode(sources, cacheDir)).toEqual({ code: `${code}// kept` })

  await writeFile(sources.entry, `export async function hello(): Promise<string> { return 'second version' }\n`)
  expect((await bundleWorkflowCode(sources, cacheDir)).code).toContain('second version')
})

test('a cache that cannot be written to costs time only', async () => {
  await writeFile(cacheDir, 'not a folder')
  expect((await bundleWorkflowCode(sources, cacheDir)).code).toContain('first version')
})
