import './source-maps.mjs'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, statSync, utimes } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { env, execPath, stdout } from 'node:process'
import { pathToFileURL } from 'node:url'

// `npm start`. Runs everything from one bundle for each version of the code, see bundle-code.ts. No other user can write into its folder.

const root = join(import.meta.dirname, '..', '..')
const entry = join(import.meta.dirname, 'main.ts')
const notOurs = new Set(['node_modules', 'test', 'bench', 'docs'])

const cacheDir = env.PLINTH_CACHE_DIR || join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'plinth')
const bundle = join(cacheDir, 'code', versionOfCode())
await import(pathToFileURL(openBundle() ? join(bundle, 'main.mjs') : entry).href)

/** Of our sources, where and when they were written, and of what is installed. */
function versionOfCode() {
  const hash = createHash('sha256')
  const add = (file) => {
    const { mtimeMs, size } = statSync(file)
    hash.update(`${file}\0${mtimeMs}\0${size}\0`)
  }
  add(join(root, 'node_modules', '.package-lock.json'))
  for (const folder of readdirSync(root, { withFileTypes: true })) {
    if (!folder.isDirectory() || folder.name.startsWith('.') || notOurs.has(folder.name)) continue
    const names = readdirSync(join(root, folder.name), { recursive: true })
    for (const name of names.sort()) if (name.endsWith('.ts')) add(join(root, folder.name, name))
  }
  return hash.digest('hex').slice(0, 32)
}

/** Makes the bundle when this version has none yet. Without a writable cache the sources run, with 100 MiB more of memory. */
function openBundle() {
  if (existsSync(bundle)) {
    // for unused-cache.ts
    utimes(bundle, new Date(), new Date(), () => undefined)
    return true
  }
  stdout.write('bundling the code of this version\n')
  const bundling = [join(import.meta.dirname, 'bundle-code.ts'), entry, bundle]
  try {
    execFileSync(execPath, bundling, { stdio: ['ignore', 'inherit', 'pipe'] })
    return true
  } catch (error) {
    stdout.write(`running the sources, because their bundle cannot be made: ${error.stderr ?? error.message}\n`)
    return false
  }
}
