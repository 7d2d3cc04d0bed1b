import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { replaceFile } from '../replace-file.ts'

const run = promisify(execFile)
const program = join(import.meta.dirname, 'bundle-process.ts')
const shortener = join(import.meta.dirname, '..', 'ascii-script.ts')
/** npm's list of installed packages and their versions. */
const installed = join(import.meta.dirname, '..', '..', 'node_modules', '.package-lock.json')
const maxBundleBytes = 64 * 1024 * 1024

export interface WorkflowSources {
  /** The file that exports the definitions. */
  readonly entry: string
  /** Every folder of ours that the definitions import from. */
  readonly folders: readonly string[]
}

/**
 * The code that runs inside the workflow sandbox, as one script. It is bundled once for each version of the sources and of the installed
 * packages, and then read from the cache, because webpack takes at least two seconds of processor time. It also takes 200 MiB, which it never
 * frees, so it runs in a process of its own.
 */
export async function bundleWorkflowCode(sources: WorkflowSources, cacheDir: string): Promise<{ readonly code: string }> {
  const dir = join(cacheDir, 'workflows')
  const file = join(dir, `${await hashSources(sources)}.js`)
  const kept = await readFile(file, 'utf8').catch(() => undefined)
  if (kept !== undefined) return { code: kept }
  const { stdout: code, stderr } = await run(process.execPath, [program, sources.entry], { maxBuffer: maxBundleBytes })
  process.stderr.write(stderr)
  // without a writable cache, each start bundles again
  await keep(dir, file, code).catch(() => undefined)
  return { code }
}

/** Covers the paths as well: they are in the bundle, for stack traces. */
async function hashSources({ entry, folders }: WorkflowSources): Promise<string> {
  const listed = await Promise.all(
    folders.map(async (folder) => (await readdir(folder, { recursive: true })).map((name) => resolve(folder, name))),
  )
  const files = [program, shortener, installed, ...listed.flat().filter((path) => path.endsWith('.ts'))].sort()
  const hash = createHash('sha256').update(entry)
  for (const [index, content] of (await Promise.all(files.map((file) => readFile(file)))).entries())
    hash.update(`\0${files[index]}\0${content.length}\0`).update(content)
  return hash.digest('hex').slice(0, 32)
}

async function keep(dir: string, file: string, code: string): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  await replaceFile(file, code, { temporary: `${file}.${process.pid}` })
}
