import { defineConfig } from 'vitest/config'

/** `npm run test:hostile`: attacks and faults that take too long, or too much of the machine, for `npm test`. One file at a time. */
// biome-ignore lint/style/noDefaultExport: vitest reads the default export
export default defineConfig({
  test: {
    include: ['test/hostile/**/*.test.ts'],
    globalSetup: 'test/global-setup.ts',
    setupFiles: 'test/setup.ts',
    testTimeout: 600_000,
    hookTimeout: 300_000,
    fileParallelism: false,
    passWithNoTests: true,
    reporters: ['verbose'],
  },
})
