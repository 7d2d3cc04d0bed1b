import { mkdir, mkdtemp, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { noSettings, overrideSettings } from '../../../core/build-settings.ts'
import type { FrameworkName } from '../../../core/frameworks.ts'
import { outputFolders } from '../../../core/output-folders.ts'
import { lookBeforeBuild } from '../../../runner/output/build-writes.ts'
import { findOutput } from '../../../runner/output/output-folder.ts'
import { openWorkspace } from '../../../runner/sandbox/workspace.ts'

let top = ''
beforeEach(async () => {
  top = await mkdtemp(join(tmpdir(), 'plinth-output-'))
})
afterEach(() => rm(top, { recursive: true }))

async function write(root: string, ...paths: string[]): Promise<void> {
  for (const path of paths) {
    await mkdir(dirname(join(root, path)), { recursive: true })
    await writeFile(join(root, path), path)
  }
}

/** Waits until the clock of the file system has gone on, as it does long before a sandbox has started. */
async function clockMoves(stamp: string): Promise<void> {
  const probe = join(top, 'probe')
  const then = (await stat(stamp)).ctimeMs
  do await writeFile(probe, '')
  while ((await stat(probe)).ctimeMs <= then)
}

interface Sample {
  /** The files of the source. */
  readonly given: readonly string[]
  readonly build: (root: string) => Promise<void>
  readonly folder?: string
  readonly framework?: FrameworkName
  readonly output_dir?: string
}

/** The folder that would be published, with what would be said about a missing index.html, or an error. */
async function outputOf({ given, build, folder = '', framework, output_dir }: Sample) {
  await using workspace = await openWorkspace(top, { index: 0, uid: undefined })
  const root = workspace.source
  await write(root, ...given)
  const before = await lookBeforeBuild(workspace, root, folder)
  await clockMoves(before.stamp)
  await build(root)
  const settings = overrideSettings(noSettings(), 'the site', { output_dir })
  const found = await findOutput(root, folder, new Set(given), { before, framework, settings })
  return 'error' in found ? found : { folder: relative(root, found.folder), noIndex: found.noIndex }
}

const writing =
  (...paths: string[]) =>
  (root: string) =>
    write(root, ...paths)
const pages = outputFolders.map((folder) => `${folder}/index.html`)

describe('B03: of the usual folders', () => {
  test.each(outputFolders)('%s is published when the build wrote it, though all others are in the source', async (folder) => {
    const found = await outputOf({ given: pages, build: writing(`${folder}/index.html`) })
    expect(found).toMatchObject({ folder })
  })

  test.each(outputFolders)('a stale %s is not published when the build wrote elsewhere', async (folder) => {
    const found = await outputOf({ given: [`${folder}/index.html`], build: writing('weird/index.html') })
    expect(found).toEqual({
      error: `The build finished, but it wrote nothing to ${folder}/. Found weird/index.html: set output_dir to weird.`,
    })
  })

  test('the first decides when the build wrote several', async () => {
    const found = await outputOf({ given: ['dist/index.html'], build: writing('public/index.html', 'out/index.html') })
    expect(found).toMatchObject({ folder: 'out' })
  })

  test('the first that exists is published when the build wrote nothing', async () => {
    const given = ['public/index.html', 'build/index.html']
    expect(await outputOf({ given, build: async () => undefined })).toMatchObject({ folder: 'build' })
  })

  test('the first that exists is published when the build wrote no page anywhere', async () => {
    const given = ['public/index.html']
    expect(await outputOf({ given, build: writing('.eslintcache', 'coverage/index.html') })).toMatchObject({ folder: 'public' })
  })

  test('one file among many untouched ones is enough', async () => {
    const given = ['dist/index.html', 'public/index.html', 'public/a/b.css']
    expect(await outputOf({ given, build: writing('public/a/new.js') })).toMatchObject({ folder: 'public' })
  })

  test.each([
    ['moved to where none was', [] as string[]],
    ['put in the place of another', ['dist/index.html']],
  ])('a folder counts that was made earlier and %s', async (_name, given) => {
    const build = async (root: string) => {
      await rm(join(root, 'dist'), { recursive: true, force: true })
      await rename(join(root, 'made'), join(root, 'dist'))
    }
    const found = await outputOf({ given: ['made/index.html', 'public/index.html', ...given], build })
    expect(found).toMatchObject({ folder: 'dist' })
  })

  test('a folder that the build only emptied does not count', async () => {
    const build = async (root: string) => {
      await rm(join(root, 'dist/old.js'))
      await write(root, 'out/index.html')
    }
    expect(await outputOf({ given: ['dist/old.js'], build })).toMatchObject({ folder: 'out' })
  })

  test('a link to a folder does not count', async () => {
    const build = async (root: string) => {
      await write(root, 'target/index.html')
      await symlink('target', join(root, 'dist'))
    }
    expect(await outputOf({ given: [], build })).toMatchObject({ error: expect.stringContaining('set output_dir to target.') })
  })

  test('output_dir decides alone', async () => {
    const given = ['old/index.html']
    const build = writing('dist/index.html')
    expect(await outputOf({ given, build, output_dir: 'old' })).toMatchObject({ folder: 'old' })
  })
})

describe('B06: a build without index.html in its output folder', () => {
  test.each<[string, string[], string, string]>([
    ['in a folder of the output', ['dist/app/browser/index.html', 'docs/index.html'], 'dist', 'dist/app/browser'],
    ['elsewhere', ['dist/a.js', 'docs/.vitepress/dist/index.html'], 'dist', 'docs/.vitepress/dist'],
    ['at several depths', ['dist/a.js', 'b/c/index.html', 'd/index.html', 'e/index.html'], 'dist', 'd'],
  ])('names the one %s', async (_name, made, folder, advised) => {
    const noIndex = `The build finished, but ${folder}/ has no index.html. Found ${advised}/index.html: set output_dir to ${advised}.`
    expect(await outputOf({ given: ['src/index.html'], build: writing(...made) })).toEqual({ folder, noIndex })
  })

  test('names it relative to the folder that is built', async () => {
    const given = ['web/package.json', 'web/public/index.html', 'dist/index.html']
    expect(await outputOf({ given, folder: 'web/', build: writing('web/weird/index.html') })).toEqual({
      error: 'The build finished, but it wrote nothing to public/. Found weird/index.html: set output_dir to weird.',
    })
  })

  test.each(['node_modules/a', '.next/server/app', '.cache', 'coverage', 'a\nb', 'x'.repeat(201)])(
    'does not name one in %j',
    async (folder) => {
      const found = await outputOf({ given: [], build: writing('dist/a.js', `${folder}/index.html`) })
      expect(found).toMatchObject({ noIndex: expect.stringMatching(/^dist has no index\.html; did the build write elsewhere\?/) })
    },
  )

  test.each<[string, FrameworkName, string[], string[], RegExp]>([
    ['Next.js', 'next', ['.next/server/app/index.html'], ['public/favicon.ico'], /output: 'export'/],
    ['Next.js beside a page of another time', 'next', ['.next/BUILD_ID'], ['public/index.html'], /public\/\. .*'export'/],
    ['Nuxt', 'nuxt', ['.output/public/about/index.html', '.output/server/index.mjs'], [], /nuxt generate/],
    ['SvelteKit on Node', '@sveltejs/kit', ['build/prerendered/index.html', 'build/server/index.js'], [], /adapter-static/],
    ['SvelteKit', '@sveltejs/kit', ['.svelte-kit/output/server/index.js'], ['static/robots.txt'], /adapter-static/],
    ['Astro', 'astro', ['dist/client/index.html', 'dist/server/entry.mjs'], [], /remove the adapter/],
    ['Angular', '@angular/core', ['dist/app/browser/index.html'], [], /set output_dir to dist\/app\/browser\.$/],
    ['Angular with a server', '@angular/core', ['dist/app/browser/index.csr.html'], [], /"outputMode": "static"/],
    ['React Router', '@react-router/dev', ['build/client/a.js', 'build/server/index.js'], [], /ssr: false/],
  ])('names the setting of %s', async (_name, framework, made, given, error) => {
    const found = await outputOf({ given, build: writing(...made), framework })
    expect('error' in found ? found.error : found.noIndex).toMatch(error)
  })
})
