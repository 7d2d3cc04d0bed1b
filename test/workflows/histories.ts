import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from '@temporalio/worker'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { loadConfig } from '../../infra/config.ts'
import { bundleWorkflowCode } from '../../infra/temporal/bundle.ts'
import type { World } from '../world.ts'
import { showWorkflow } from './temporal-client.ts'

const folder = join(import.meta.dirname, 'histories')
const mutants = join(import.meta.dirname, 'mutant')
const mutantSources = { entry: join(mutants, 'mutant.ts'), folders: [mutants] }

export const replay = (history: unknown, bundle = { code: inject('workflowBundle') }) =>
  Worker.runReplayHistory({ workflowBundle: bundle }, history)

/** Why each history does not replay, by the name of its file; undefined for those that do. */
type Outcomes = ReadonlyMap<string, Error | undefined>

/** One worker replays all of them, because it takes longer to start than to replay a history. */
async function replayAll(
  histories: readonly { readonly workflowId: string; readonly history: unknown }[],
  bundle: { readonly code: string },
): Promise<Outcomes> {
  const outcomes = new Map<string, Error | undefined>()
  for await (const { workflowId, error } of Worker.runReplayHistories({ workflowBundle: bundle }, histories))
    outcomes.set(workflowId, error)
  return outcomes
}

/** Writes the history of a workflow as a fixture when it is asked for: `RECORD_HISTORIES=1 npx vitest run test/workflows/<name>.test.ts`. */
export function record(temporal: World['temporal'], workflowId: string, name: string, runId?: string): void {
  if (!process.env['RECORD_HISTORIES']) return
  writeFileSync(join(folder, `${name}.json`), showWorkflow(temporal, workflowId, runId))
}

/** The fixtures of some workflows: all of them are there, each replays with the workflows of today, and none with those of `mutant.ts`. */
export function describeHistories(pattern: RegExp, expected: readonly string[]): void {
  describe('the recorded histories', () => {
    const files = readdirSync(folder).filter((file) => pattern.test(file))
    const read = (file: string) => JSON.parse(readFileSync(join(folder, file), 'utf8')) as unknown
    let today: Outcomes
    let mutant: Outcomes
    beforeAll(async () => {
      const histories = files.map((file) => ({ workflowId: file, history: read(file) }))
      today = await replayAll(histories, { code: inject('workflowBundle') })
      mutant = await replayAll(histories, await bundleWorkflowCode(mutantSources, loadConfig().cacheDir))
    })

    test('are there for every ending', () => {
      expect(files.sort()).toEqual(expected.map((name) => `${name}.json`).sort())
    })

    test.each(files)('%s replays with the workflows of today', (file) => {
      expect([today.has(file), today.get(file)]).toEqual([true, undefined])
    })

    test.each(files)('%s does not replay with a workflow of other steps', (file) => {
      expect(mutant.get(file)).toBeInstanceOf(Error)
    })
  })
}
