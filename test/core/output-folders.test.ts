import { expect, test } from 'vitest'
import { frameworkOf } from '../../core/build-plan.ts'
import { noSettings } from '../../core/build-settings.ts'
import { type BuildTraces, noOutputFolder, noOutputIndex, outputFolders } from '../../core/output-folders.ts'

const traces = (own: Partial<BuildTraces> = {}): BuildTraces => ({
  written: [],
  indexFolder: undefined,
  framework: undefined,
  hasServer: false,
  ...own,
})

test('B03: the output folders are those of the specification, in its order', () => {
  expect(outputFolders.join(' ')).toBe('dist build out .vitepress/dist .output/public _site public site storybook-static')
  for (const folder of outputFolders) expect(noOutputFolder(traces(), undefined, noSettings())).toContain(folder)
})

test('B06: folders that a build wrote instead are named, in one line and not all', () => {
  expect(noOutputIndex('public', traces({ written: ['public'] }))).toBe(
    'public has no index.html; did the build write elsewhere?',
  )
  expect(noOutputFolder(traces({ written: ['target'] }), undefined, noSettings())).toMatch(
    /with index\.html in it, or name its folder in output_dir of the site \(it wrote target\)$/,
  )
  expect(noOutputIndex('public', traces({ written: ['a\nb', 'public'] }))).toMatch(/\(it wrote a\\nb\)$/)
  const many = Array.from({ length: 11 }, (_, i) => `f${i}`)
  expect(noOutputFolder(traces({ written: many }), undefined, noSettings())).toMatch(/f9, …\)$/)
})

test.each<[string, Partial<BuildTraces>, string]>([
  [
    'a page elsewhere',
    { indexFolder: 'dist/app/browser' },
    'The build finished, but dist/ has no index.html. Found dist/app/browser/index.html: set output_dir to dist/app/browser.',
  ],
  [
    'a page beside package.json',
    { indexFolder: '' },
    'The build finished, but dist/ has no index.html. Found index.html beside package.json: write the site to a folder of its own, such as dist.',
  ],
  [
    'a page, though its framework writes servers',
    { indexFolder: 'web', framework: 'next' },
    'The build finished, but dist/ has no index.html. Found web/index.html: set output_dir to web.',
  ],
  [
    'a page beside the server of its framework',
    { indexFolder: 'dist/client', framework: 'astro', hasServer: true },
    "The build finished, but dist/ has no index.html. Astro wrote a server: remove the adapter, output: 'server' and prerender = false from the project.",
  ],
])('B06: a build that wrote %s says what to change', (_name, own, error) =>
  expect(noOutputIndex('dist', traces(own))).toBe(error),
)

test.each([
  [['dependencies', 'next'], "output: 'export'"],
  [['devDependencies', 'nuxt'], 'nuxt generate'],
  [['devDependencies', '@sveltejs/kit'], '@sveltejs/adapter-static'],
  [['dependencies', 'astro'], 'remove the adapter'],
  [['dependencies', '@angular/core'], '"outputMode": "static"'],
  [['devDependencies', '@react-router/dev'], 'ssr: false'],
] as const)('B06: a build with %j that wrote no page names the setting %s', ([list, name], setting) => {
  const framework = frameworkOf(JSON.stringify({ [list]: { [name]: '1.0.0' } }))
  expect(noOutputFolder(traces({ framework }), undefined, noSettings())).toContain(setting)
  expect(noOutputFolder(traces({ framework }), 'public', noSettings())).toMatch(
    /^The build finished, but it wrote nothing to public\/\. /,
  )
})

test.each(['{', '[]', '{}', '{"dependencies":null}', '{"dependencies":"next"}', '{"dependencies":["next"]}', '{"next":"1"}'])(
  'package.json with %s names no framework',
  (text) => expect(frameworkOf(text)).toBeUndefined(),
)
