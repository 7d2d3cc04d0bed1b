import { defineConfig } from 'vitest/config'

const oneProcess = ['api', 'client', 'core', 'db', 'edge'].map((folder) => `test/${folder}/**/*.test.ts`)

// biome-ignore lint/style/noDefaultExport: vitest reads the default export
export default defineConfig({
  test: {
    // run by `npm run test:hostile` and `npm run test:generators`
    exclude: ['test/hostile/**', 'test/generators/**'],
    globalSetup: 'test/global-setup.ts',
    setupFiles: 'test/setup.ts',
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // of a condition that comes about at once, unless the machine is busy
    expect: { poll: { timeout: 20_000 } },
    reporters: ['default', './test/flaky-reporter.ts'],
    projects: [
      // these look at their process, its children and its memory; they wait for other programs for a third of their time
      {
        test: {
          name: 'own process',
          include: ['test/**/*.test.ts'],
          exclude: oneProcess,
          maxWorkers: 3,
          sequence: { groupOrder: 0 },
        },
      },
      // loading the stack and compiling its hot functions takes longer than most of these files
      { test: { name: 'shared process', include: oneProcess, isolate: false, maxWorkers: 2, sequence: { groupOrder: 1 } } },
    ],
  },
})
