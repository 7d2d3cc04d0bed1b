import { describe, expect, test } from 'vitest'
import { createAdmission } from '../../api/admission.ts'
import { shareLookUps } from '../../api/shared-look-ups.ts'
import { admissionLimits } from '../../core/limits.ts'
import { createBudget } from '../../infra/limits.ts'

describe('a budget', () => {
  test('lets a payer have its limit and no more', () => {
    const budget = createBudget(100)
    expect([budget.take('a', 30, 30), budget.take('a', 30, 1)]).toEqual([undefined, 'payer'])
    budget.give('a', 10)
    expect([budget.take('a', 30, 10), budget.held]).toEqual([undefined, 30])
  })

  test('however many payers take all they can, there is something left for another one', () => {
    const budget = createBudget(1000)
    for (let i = 0; i < 8; i += 1) while (budget.take(`greedy ${i}`, 900, 1) === undefined);
    expect(budget.take('modest', 900, 1)).toBe(undefined)
  })

  test('one payer gets at most half of a budget that is smaller than its limit', () => {
    const budget = createBudget(100)
    expect([budget.take('a', 200, 50), budget.take('a', 200, 1)]).toEqual([undefined, 'server'])
  })
})

test('a turn of the event loop has a few chunks of large bodies, and another project waits for the next turn at most', async () => {
  const admission = createAdmission(() => {
    throw new Error('no database')
  })
  const enter = (id: string) => admission.enter({ kind: 'project', id })
  const greedy = enter('greedy')
  const modest = enter('modest')
  let worked = ''
  const all = Array.from({ length: 40 }, () => greedy.waitForChunkSlot().then(() => (worked += 'g')))
  all.push(modest.waitForChunkSlot().then(() => (worked += 'm')))
  await Promise.resolve()
  const turns: number[] = []
  for (let last = 0; worked.length < 41; last = worked.length) {
    await new Promise((resolve) => setImmediate(resolve))
    turns.push(worked.length - last)
  }
  await Promise.all(all)
  // what was free at once and what the first turn brings are counted together
  turns.shift()
  expect(Math.max(...turns)).toBeLessThanOrEqual(admissionLimits.chunksPerTurn)
  expect(worked.indexOf('m')).toBeLessThan(2 * admissionLimits.chunksPerTurn)
})

describe('shared look-ups', () => {
  function openLookUps() {
    let value = 0
    const ended: PromiseWithResolvers<void>[] = []
    const lookUp = shareLookUps(async () => {
      const read = ++value
      const end = Promise.withResolvers<void>()
      ended.push(end)
      await end.promise
      return read
    })
    return { lookUp, ended }
  }

  test('who asks while one runs gets what was read later, and all who do share it', async () => {
    const { lookUp, ended } = openLookUps()
    const first = lookUp('a')
    const later = Array.from({ length: 100 }, () => lookUp('a'))
    ended[0]?.resolve()
    expect(await first).toBe(1)
    await Promise.resolve()
    const latest = lookUp('a')
    ended[1]?.resolve()
    expect(new Set(await Promise.all(later))).toEqual(new Set([2]))
    await new Promise((resolve) => setImmediate(resolve))
    ended[2]?.resolve()
    expect(await latest).toBe(3)
  })

  test('one that fails fails for all who waited, and who asks afterwards tries again', async () => {
    const { lookUp, ended } = openLookUps()
    const waiting = Promise.allSettled(Array.from({ length: 3 }, () => lookUp('a')))
    ended[0]?.reject(new Error('away'))
    expect((await waiting).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    const later = lookUp('a')
    ended[1]?.resolve()
    expect(await later).toBe(2)
  })

  test('of other names do not wait', async () => {
    const { lookUp, ended } = openLookUps()
    const both = [lookUp('a'), lookUp('b')]
    for (const end of ended) end.resolve()
    expect(await Promise.all(both)).toEqual([1, 2])
  })
})
