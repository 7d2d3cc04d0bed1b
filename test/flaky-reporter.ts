import type { Reporter, TestCase } from 'vitest/node'

/** Names at the end the tests that passed only when they were run again (`--retry`). */
// biome-ignore lint/style/noDefaultExport: vitest reads the default export
export default class FlakyReporter implements Reporter {
  readonly #flaky: string[] = []

  onTestCaseResult(test: TestCase): void {
    if (test.diagnostic()?.flaky) this.#flaky.push(`${test.module.relativeModuleId} > ${test.fullName}`)
  }

  onTestRunEnd(): void {
    if (this.#flaky.length > 0)
      console.log(['', ' Passed when run again:', ...this.#flaky.map((name) => `   ${name}`)].join('\n'))
  }
}
