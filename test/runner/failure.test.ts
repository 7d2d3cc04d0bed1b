import { expect, test } from 'vitest'
import { explainFailure, type Failure } from '../../runner/failure.ts'

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
