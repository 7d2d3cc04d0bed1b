import { afterAll, beforeAll, expect, test } from 'vitest'
import { type World, world } from '../world.ts'
import { killEdge } from './killed-edge.ts'
import { report } from './platform.ts'

const kills = 100

let w: World
beforeAll(async () => {
  w = await world()
})
afterAll(() => w[Symbol.asyncDispose]())

test('E36: an edge that is killed and starts again shows no older page, and none of a site that was closed or removed before', async () => {
  const { visits, older, open, removed, slowestVisit } = await killEdge(w, await w.project('enterprise'), kills)
  const figure = `${older} older pages, ${open} of a closed site, ${removed} of a removed one in ${visits} visits, ${kills} kills`
  report('E36', `${figure}; slowest visit ${slowestVisit} ms`, '0, 0, 0')
  expect([older, open, removed]).toEqual([0, 0, 0])
}, 3_600_000)
