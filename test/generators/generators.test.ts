import { afterAll, beforeAll, expect, test } from 'vitest'
import { type BuildFiles, expectIsolation, openBuilder } from '../runner/builder.ts'
import { projects } from './projects.ts'

// Every generator with its default configuration goes live, or fails with the sentence that mends it.

let builder: Awaited<ReturnType<typeof openBuilder>>
beforeAll(async () => {
  builder = await openBuilder({ env: { PLINTH_BUILD_TIMEOUT: '12m', PLINTH_BUILD_MEMORY: '3g' } })
  expectIsolation(builder.sandbox.status)
})
afterAll(() => builder[Symbol.asyncDispose]())

const needsNode = /into a file \.nvmrc beside package\.json/

async function outcomeOf(files: BuildFiles) {
  const built = await builder.build(files)
  if (built.outcome === 'failed') return built.error
  expect(await built.read('index.html')).toMatch(/<!doctype html/i)
  return `live from ${/ from (\S+)\n$/.exec(built.log)?.[1]}`
}

test.each(projects)('$name', async ({ files, expected }) => {
  expect(await outcomeOf({ '.nvmrc': '24', ...files })).toMatch(expected)
})

test.each(projects.filter(({ needsNewerNode }) => needsNewerNode))('$name on Node 20', async ({ files }) => {
  expect(await outcomeOf(files)).toMatch(needsNode)
})
