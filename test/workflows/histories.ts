import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bundleWorkflowCode, DefaultLogger, Worker } from '@temporalio/worker'
import { beforeAll, describe, expect, inject, test } from 'vitest'

const folder = join(import.meta.dirname, 'histories')
const workflowsPath = join(import.meta.dirname, 'mutant.ts')

export const replay = (history: unknown, bundle = { code: inject('workflowBundle') }) =>
  Worker.runReplayHistory({ workflowBundle: bundle }, history)

/** Writes the history of a workflow as a fixture when it is asked for: `RECORD_HISTORIES=1 npx vitest run test/workflows/<name>.test.ts`. */
export function record(temporal: { readonly address: string }, workflowId: string, name: string, runId?: string): void {
  if (!process.env['RECORD_HISTORIES']) return
  const run = runId === undefined ? [] : ['--run-id', runId]
  const flags = ['--workflow-id', workflowId, ...run, '--address', temporal.address, '--output', 'json']
  writeFileSync(join(folder, `${name}.json`), execFileSync(inject('temporal'), ['workflow', 'show', ...flags]))
}

/** The fixtures of some workflows: all of them are there, each replays with the workflows of today, and none with those of `mutant.ts`. */
export function describeHistories(pattern: RegExp, expected: readonly string[]): void {
  describe('the recorded histories', () => {
    const files = readdirSync(folder).filter((file) => pattern.test(file))
    const read = (file: string) => JSON.parse(readFileSync(join(folder, file), 'utf8')) as unknown
    let mutant: { code: string }
    beforeAll(async () => {
      mutant = await bundleWorkflowCode({ workflowsPath, logger: new DefaultLogger('WARN') })
    })

    test('are there for every ending', () => {
      expect(files.sort()).toEqual(expected.map((name) => `${name}.json`).sort())
    })

    test.each(files)('%s replays with the workflows of today', async (file) => {
      await replay(read(file))
    })

    test.each(files)('%s does not replay with a workflow of other steps', async (file) => {
      await expect(replay(read(file), mutant)).rejects.toThrow()
    })
  })
}
