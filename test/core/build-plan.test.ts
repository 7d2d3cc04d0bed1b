import { describe, expect, test } from 'vitest'
import { noOutputFolder, noOutputIndex, outputFolders, planBuild, wrappingFolder } from '../../core/build-plan.ts'

const built = '{"scripts":{"build":"vite build"}}'
const show = (packageJson: string, files: readonly string[]) => {
  const plan = planBuild(packageJson, new Set(files))
  return plan.kind === 'build' ? `${plan.install.join(' ')} && ${plan.build.join(' ')}` : plan.error
}

test.each<[string, string[], string]>([
  ['B01: a lock file', ['package-lock.json'], 'npm ci && npm run build'],
  ['B01: a shrinkwrap', ['npm-shrinkwrap.json'], 'npm ci && npm run build'],
  ['B02: no lock file', ['index.html'], 'npm install && npm run build'],
  ['B02: a lock file of another tool', ['yarn.lock', 'pnpm-lock.yaml'], 'npm install && npm run build'],
])('%s', (_name, files, commands) => expect(show(built, files)).toBe(commands))

test('B01: a byte order mark before package.json does no harm', () => {
  expect(show(`\ufeff${built}`, [])).toBe('npm install && npm run build')
})

test.each<[string, string, RegExp]>([
  ['text', 'hello', /^package.json is not valid JSON \(.*\); mend it and deploy again$/],
  ['nothing', '', /^package.json is not valid JSON/],
  ['a list', '[]', /^package.json is not a JSON object/],
  ['null', 'null', /^package.json is not a JSON object/],
  ['no scripts', '{}', /^package.json has no "build" script: add one to "scripts"/],
  ['other scripts', '{"scripts":{"start":"x"}}', /^package.json has no "build" script/],
  ['an empty script', '{"scripts":{"build":" "}}', /^package.json has no "build" script/],
  ['a script that is no text', '{"scripts":{"build":{"a":1}}}', /^package.json has no "build" script/],
  ['scripts from a prototype', '{"scripts":{"__proto__":{"build":"x"}}}', /^package.json has no "build" script/],
])('B06: package.json with %s says what to change', (_name, text, message) => expect(show(text, [])).toMatch(message))

test('B03: the output folders are those of the specification, in its order', () => {
  expect(outputFolders.join(' ')).toBe('dist build out .vitepress/dist .output/public _site public site storybook-static')
  for (const folder of outputFolders) expect(noOutputFolder).toContain(folder)
  expect(noOutputIndex('public')).toBe('public has no index.html; did the build write elsewhere?')
})

describe('a single wrapping folder', () => {
  test.each<[string, string[], string]>([
    ['is left out', ['site/index.html', 'site/a/b.css'], 'site/'],
    ['is left out around a package', ['site/package.json', 'site/src/a.js'], 'site/'],
    ['is left out beside what is never published', ['.DS_Store', 'site/index.html', '.env'], 'site/'],
    ['stays when index.html lies at the root', ['index.html', 'site/a.css'], ''],
    ['stays when only index.html lies in a folder and package.json at the root', ['package.json', 'site/index.html'], ''],
    ['stays beside another file', ['site/index.html', 'readme.txt'], ''],
    ['stays beside another folder', ['site/index.html', 'sites/index.html'], ''],
    ['is not made of nothing', [], ''],
  ])('%s', (_name, paths, expected) => expect(wrappingFolder(paths)).toBe(expected))

  test('takes one level only', () => expect(wrappingFolder(['a/b/index.html'])).toBe('a/'))
})
