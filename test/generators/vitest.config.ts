import { defineConfig } from 'vitest/config'

/** `npm run test:generators`: installs the current release of each generator from the registry, which takes too long for `npm test`. */
// biome-ignore lint/style/noDefaultExport: vitest reads the default export
export default defineConfig({
  test: {
    include: ['test/generators/**/*.test.ts'],
    globalSetup: 'test/global-setup.ts',
    setupFiles: 'test/setup.ts',
    testTimeout: 900_000,
    hookTimeout: 300_000,
    fileParallelism: false,
    reporters: ['verbose'],
  },
})
