import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** The files that take longest, in seconds on two processors. One of them that began last would run on alone. */
const seconds: Readonly<Record<string, number>> = {
  'test/e2e/generators.test.ts': 222,
  'test/e2e/domains.test.ts': 133,
  'test/workflows/git.test.ts': 118,
  'test/runner/install/restored.test.ts': 89,
  'test/runner/install/kept-folders.test.ts': 87,
  'test/runner/sandbox/abuse.test.ts': 86,
  'test/e2e/git.test.ts': 85,
  'test/workflows/cancel.test.ts': 84,
  'test/api/authorization.test.ts': 77,
  'test/api/archives.test.ts': 77,
  'test/runner/install/toolchain.test.ts': 69,
  'test/workflows/form-emails-faults.test.ts': 68,
  'test/e2e/closed-sites-browser.test.ts': 63,
  'test/workflows/permits.test.ts': 65,
  'test/api/payments.test.ts': 59,
  'test/e2e/faults.test.ts': 58,
  'test/e2e/start.test.ts': 56,
  'test/workflows/reports.test.ts': 54,
  'test/infra/git-hostile.test.ts': 50,
  'test/workflows/certificates.test.ts': 49,
  'test/workflows/webhooks.test.ts': 47,
  'test/infra/local-process.test.ts': 46,
  'test/api/messenger-login.test.ts': 46,
  'test/workflows/scrub.test.ts': 39,
  'test/edge/traffic/thread.test.ts': 38,
  'test/infra/git.test.ts': 36,
  'test/e2e/gate-pages-browser.test.ts': 36,
}

const secondsOf = ({ moduleId }: TestSpecification): number =>
  Object.entries(seconds).find(([file]) => moduleId.endsWith(`/${file}`))?.[1] ?? 0

/** Starts the longest files of each project first, whether or not an earlier run has left its results. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.toSorted((a, b) => (a.project.name === b.project.name ? secondsOf(b) - secondsOf(a) : 0))
  }
}
