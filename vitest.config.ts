import { defineConfig } from 'vitest/config'
import { LongestFirst } from './test/longest-first.ts'

const filesIn = (...folders: string[]) => folders.map((folder) => `test/${folder}/**/*.test.ts`)
/** Loading the stack and compiling its hot functions takes longer than most of these files. */
const shared = {
  'long files': filesIn('infra', 'runner', 'workflows'),
  'short files': filesIn('api', 'client', 'core', 'db', 'edge'),
}

// biome-ignore lint/style/noDefaultExport: vitest reads the default export
export default defineConfig({
  test: {
    // run by `npm run test:hostile` and `npm run test:generators`
    exclude: ['test/hostile/**', 'test/generators/**'],
    globalSetup: 'test/global-setup.ts',
    setupFiles: 'test/setup.ts',
    testTimeout: 120_000,
    hookTimeout: 180_000,
    // of a condition that comes about at once, unless the machine is busy
    expect: { poll: { timeout: 60_000 } },
    sequence: { sequencer: LongestFirst },
    // fewer collections of young objects: about a twentieth of the processor time of the tests of api and workflows
    execArgv: ['--max-semi-space-size=32'],
    // files wait for timers, disks and other programs for about half of their time
    maxWorkers: 4,
    projects: [
      { test: { name: 'own process', include: ['test/**/*.test.ts'], exclude: Object.values(shared).flat() } },
      // one process for both would grow to 1.4 GB
      ...Object.entries(shared).map(([name, include]) => ({ test: { name, include, isolate: false } })),
    ],
  },
})
