import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** The files that take longest, in seconds on two processors. One of them that began last would run on alone. */
const seconds: Readonly<Record<string, number>> = {
  'test/workflows/git.test.ts': 136,
  'test/e2e/domains.test.ts': 132,
  'test/e2e/generators.test.ts': 124,
  'test/e2e/members-browser.test.ts': 111,
  'test/runner/install/restored.test.ts': 109,
  'test/runner/install/kept-folders.test.ts': 99,
  'test/workflows/cancel.test.ts': 89,
  'test/workflows/form-emails-faults.test.ts': 78,
  'test/runner/sandbox/abuse.test.ts': 76,
  'test/workflows/reports.test.ts': 69,
  'test/workflows/certificates.test.ts': 66,
  'test/workflows/permits.test.ts': 65,
  'test/workflows/scrub.test.ts': 63,
  'test/workflows/autoreply.test.ts': 63,
  'test/e2e/git.test.ts': 62,
  'test/e2e/gate-browser.test.ts': 53,
  'test/infra/git-hostile.test.ts': 52,
  'test/api/archives.test.ts': 51,
  'test/e2e/faults.test.ts': 48,
  'test/runner/install/toolchain.test.ts': 47,
  'test/api/authorization.test.ts': 47,
  'test/workflows/webhooks.test.ts': 46,
  'test/infra/local-process.test.ts': 46,
  'test/infra/git.test.ts': 45,
  'test/e2e/form-browser.test.ts': 44,
  'test/workflows/domains.test.ts': 42,
  'test/e2e/start.test.ts': 39,
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
