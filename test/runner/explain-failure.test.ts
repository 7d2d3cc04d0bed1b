import { expect, test } from 'vitest'
import { explainFailure, type Failure } from '../../runner/explain-failure.ts'

const failure: Failure = {
  command: ['npm', 'run', 'build'],
  code: 1,
  stopped: undefined,
  log: '',
  memoryBytes: 512 * 1024 * 1024,
  timeoutMs: 600_000,
}

test.each<[string, Partial<Failure>, RegExp]>([
  ['an exit code', { code: 3 }, /^npm run build failed with exit code 3$/],
  ['a signal', { code: undefined }, /^npm run build was ended by a signal$/],
  ['the clock', { stopped: 'time' }, /stopped because the build took longer than 10 minutes/],
  ['the clock, in seconds', { stopped: 'time', timeoutMs: 1500 }, /longer than 1\.5 seconds/],
  ['memory', { stopped: 'memory', code: 137 }, /^npm run build ran out of memory: a build has 512 MB;.*PLINTH_BUILD_MEMORY/],
  [
    'the heap',
    { log: 'FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory' },
    /ran out of memory, a build has 512 MB/,
  ],
  ['the disk', { stopped: 'disk' }, /wrote more than 2 GB or 200,000 files/],
  ['its output', { stopped: 'output' }, /1 GB of output/],
  [
    'a lock file out of step',
    { log: 'npm error code EUSAGE\n' },
    /package-lock.json does not match package.json; run npm install/,
  ],
  ['a missing program', { code: 127, log: 'sh: 1: vite: not found\n' }, /a program is missing; add its package/],
  ['a missing package', { log: 'npm error code E404\n' }, /a package was not found in the registry/],
  ['a refused connection', { log: 'blocked: 10.0.0.1:443 (not at a public address)\n' }, /what builds may not/],
  [
    'a lock file of pnpm out of step',
    {
      log: ' ERR_PNPM_OUTDATED_LOCKFILE  Cannot install with "frozen-lockfile" because pnpm-lock.yaml is not up to date with <ROOT>/package.json\n',
    },
    /pnpm-lock.yaml does not match package.json; run pnpm install/,
  ],
  [
    'a lock file of Yarn 1 out of step',
    { log: 'error Your lockfile needs to be updated, but yarn was run with `--frozen-lockfile`.\n' },
    /yarn.lock does not match package.json; run yarn install/,
  ],
  [
    'a lock file of Yarn 4 out of step',
    { log: '➤ YN0028: │ The lockfile would have been modified by this install, which is explicitly forbidden.\n' },
    /yarn.lock does not match package.json/,
  ],
  ['another archive', { log: 'npm error code EINTEGRITY\n' }, /not the one that the lock file names/],
  ['a compiler that was ended', { code: 137, log: 'Killed\n' }, /ran out of memory, a build has 512 MB/],
  [
    'an engine that npm refuses',
    { log: 'npm error code EBADENGINE\nnpm error engine Unsupported engine\nnpm error notsup Required: {"node":">=22"}\n' },
    /needs another version of Node; write .* \.nvmrc/,
  ],
  [
    'an engine that Yarn refuses',
    { log: 'error a@1.0.0: The engine "node" is incompatible with this module. Expected version ">=30". Got "20.20.2"\n' },
    /needs another version of Node/,
  ],
  ['an engine that pnpm refuses', { log: 'Your Node version is incompatible with "/build".\n' }, /needs another version of Node/],
  [
    'the engine of Vite',
    {
      log: 'You are using Node.js 18.20.8. Vite requires Node.js version 20.19+ or 22.12+. Please upgrade your Node.js version.\n',
    },
    /needs another version of Node/,
  ],
  [
    'the engine of Next',
    { log: 'You are using Node.js 18.20.8. For Next.js, Node.js version ">=20.9.0" is required.\n' },
    /needs another version of Node/,
  ],
  ['the engine of Astro', { log: 'Node.js v18.20.8 is not supported by Astro!\n' }, /needs another version of Node/],
  [
    'an npm that stumbles over packages',
    { log: "npm error Cannot read properties of null (reading 'edgesOut')\n" },
    /write 24 into a file \.nvmrc/,
  ],
  [
    'Astro without its server',
    { log: '[NoAdapterInstalled] Cannot use server-rendered pages without an adapter.\n' },
    /remove output: 'server'/,
  ],
  ['an old export of Next', { log: "`next export` has been removed in favor of 'output: export'\n" }, /output: 'export' in next/],
  [
    'Hugo without Go',
    { log: 'Error: failed to download modules: binary with name "go" not found in PATH\n' },
    /run hugo mod vendor, and send the folder _vendor/,
  ],
  [
    'a missing theme of Hugo',
    { log: 'Error: module "lost" not found in "/build/themes/lost"\n' },
    /the theme of the site is missing/,
  ],
  [
    'a missing package of Python',
    { log: 'ERROR: No matching distribution found for mkdocs-lost\n' },
    /a package of requirements\.txt was not found/,
  ],
  [
    'a missing theme of MkDocs',
    { log: "ERROR - Config value 'theme': Unrecognised theme name: 'material'.\n" },
    /name its package/,
  ],
  ['a missing MkDocs', { code: 127, log: 'mkdocs cannot be started: spawn mkdocs ENOENT\n' }, /does not name mkdocs; add it/],
  [
    'a package of Python that is compiled',
    { log: "error: command 'gcc' failed: No such file or directory\nERROR: Failed building wheel for x\n" },
    /published as a wheel/,
  ],
  [
    'the version of pnpm',
    { log: ' ERR_PNPM_UNSUPPORTED_ENGINE  Unsupported environment\n\nYour pnpm version is incompatible with "/build".\n' },
    /asks for another version of its package manager/,
  ],
  ['a missing compiler', { log: 'gyp ERR! find Python \ngyp ERR! find Python Python is not set\n' }, /builds have no compiler/],
  ['a missing make', { log: 'gyp ERR! stack Error: not found: make\n' }, /builds have no compiler/],
  ['packages that do not fit', { log: 'npm error code ERESOLVE\n' }, /do not fit/],
  ['a missing script of npm', { log: 'npm error Missing script: "compile"\n' }, /a script calls another/],
  ['a missing script of pnpm', { log: ' ERR_PNPM_NO_SCRIPT  Missing script: compile\n' }, /a script calls another/],
  ['a missing script of Yarn', { log: 'error Command "compile" not found.\n' }, /a script calls another/],
  ['a host that is out of reach', { log: 'Error: getaddrinfo EAI_AGAIN example.com\n' }, /builds reach public hosts by https/],
  [
    'a missing module',
    { log: "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'sharp' imported from /build/x.js\n" },
    /a package is missing; add it/,
  ],
  ['a missing file of its own', { log: "Error: Cannot find module './missing'\n" }, /^npm run build failed with exit code 1$/],
])('B06: a build that fails by %s says so', (_name, change, message) => {
  expect(explainFailure({ ...failure, ...change }).split('\n')[0]).toMatch(message)
})

test('B06: the last 20 lines of the log follow, long ones cut', () => {
  const log = Array.from({ length: 50 }, (_, i) => `line ${i}`).join('\n')
  const lines = explainFailure({ ...failure, log: `${log}\n${'z'.repeat(900)}\n` }).split('\n')
  expect(lines.slice(0, 3)).toEqual(['npm run build failed with exit code 1', '', 'line 31'])
  expect(lines.at(-1)).toBe(`${'z'.repeat(300)}…`)
  expect(lines).toHaveLength(22)
})
