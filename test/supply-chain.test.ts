import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'

// Check 88: what `npm ci` puts on a machine. Whether a version is known to be vulnerable is asked of the registry in test/hostile/audit.test.ts.

const root = resolve(import.meta.dirname, '..')
const readJson = (path: string) => JSON.parse(readFileSync(join(root, path), 'utf8'))

interface Locked {
  readonly version: string
  readonly integrity?: string
  readonly resolved?: string
  readonly license?: string
  readonly hasInstallScript?: boolean
}
const manifest = readJson('package.json')
const lock = readJson('package-lock.json')
const packages = Object.entries(lock.packages as Record<string, Locked>).filter(([path]) => path !== '')
const nameOf = (path: string) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)

/** Licences that allow use, change and passing on without conditions on our own code. */
const allowedLicences = new Set([
  '0BSD',
  'Apache-2.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'BlueOak-1.0.0',
  'CC-BY-4.0',
  'ISC',
  'MIT',
  'MIT-0',
  // weak copyleft: binds changes of its own files only
  'MPL-2.0',
  // libvips, which sharp loads from a file of its own that anybody may replace
  'LGPL-3.0-or-later',
  // as BSD
  'PSF-2.0',
  'Unlicense',
  'Zlib',
])
/** Packages whose lock entry names no licence, with the one that their own files name. */
const licencesElsewhere: Readonly<Record<string, string>> = { unionfs: 'Unlicense' }

/** Whether an SPDX expression can be met with allowed licences only; nested parentheses do not occur. */
const isAllowed = (expression: string) =>
  expression
    .replaceAll(/[()]/g, '')
    .split(' OR ')
    .some((alternative) => alternative.split(' AND ').every((licence) => allowedLicences.has(licence)))

test('88: the lock file holds exactly the dependencies that package.json names, each at one version', () => {
  for (const group of ['dependencies', 'devDependencies', 'optionalDependencies']) {
    expect([group, lock.packages[''][group]]).toEqual([group, manifest[group]])
    for (const version of Object.values(manifest[group])) expect(version).toMatch(/^\d+\.\d+\.\d+(-[\w.]+)?$/)
  }
})

test('88: every locked package comes from the registry and is pinned by a SHA-512 checksum', () => {
  const unpinned = packages.filter(
    ([, { integrity, resolved }]) =>
      !integrity?.startsWith('sha512-') || (resolved !== undefined && !resolved.startsWith('https://registry.npmjs.org/')),
  )
  expect(unpinned.map(([path]) => path)).toEqual([])
})

test('88: every package has a licence of the allow-list', () => {
  const refused = packages
    .map(([path, { license }]) => [nameOf(path), license ?? licencesElsewhere[nameOf(path)] ?? 'none'] as const)
    .filter(([, licence]) => !isAllowed(licence))
  expect(refused).toEqual([])
})

test('88: only packages named in allowScripts have install scripts', () => {
  const decided = Object.keys(manifest.allowScripts)
  const undecided = packages.filter(([path, { hasInstallScript }]) => hasInstallScript && !decided.includes(nameOf(path)))
  expect(undecided.map(([path]) => path)).toEqual([])
})

test.each([
  ['GPL-3.0-only', false],
  ['(MIT OR GPL-2.0)', true],
  ['(MIT AND GPL-2.0)', false],
])('88: the licence %s is allowed: %s', (licence, expected) => expect(isAllowed(licence)).toBe(expected))
