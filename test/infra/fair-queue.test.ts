import { describe, expect, test } from 'vitest'
import { createFairQueue, type FairQueueLimits } from '../../infra/fair-queue.ts'

const roomy: FairQueueLimits = {
  places: 1,
  placesPerPayer: 1,
  waiting: 1000,
  waitingPerPayer: 500,
  overflow: (why) => new Error(why),
}

/** Asks for a place for each of the payers in turn, gives each back as soon as it was had, and tells in which order they came. */
async function orderOf(payers: string, limits: Partial<FairQueueLimits> = {}): Promise<string> {
  const queue = createFairQueue({ ...roomy, ...limits })
  const first = await queue.acquire('first')
  let order = ''
  const all = payers.split('').map(async (payer) => {
    const leave = await queue.acquire(payer)
    order += payer
    await Promise.resolve()
    leave()
  })
  first()
  await Promise.all(all)
  expect([queue.held, queue.waiting]).toEqual([0, 0])
  return order
}

describe('the queue', () => {
  test.each([
    ['aaaa', 'aaaa'],
    ['aaaabb', 'ababaa'],
    ['aaabc', 'abcaa'],
    ['abab', 'abab'],
  ])('serves %s in the order %s', async (asked, served) => expect(await orderOf(asked)).toBe(served))

  test('gives a free place to the payer that holds the fewest', async () => {
    const queue = createFairQueue({ ...roomy, places: 3, placesPerPayer: 3 })
    const [one] = [await queue.acquire('a'), await queue.acquire('a'), await queue.acquire('a')]
    let order = ''
    void queue.acquire('a').then(() => (order += 'a'))
    void queue.acquire('b').then(() => (order += 'b'))
    one?.()
    await new Promise((resolve) => setImmediate(resolve))
    expect(order).toBe('b')
  })

  test('gives no payer more places than its own, even when others are free', async () => {
    const queue = createFairQueue({ ...roomy, places: 3, placesPerPayer: 2 })
    await queue.acquire('a')
    await queue.acquire('a')
    void queue.acquire('a')
    expect([queue.held, queue.waiting]).toEqual([2, 1])
    await queue.acquire('b')
    expect([queue.held, queue.waiting]).toEqual([3, 1])
  })

  test('refuses a payer that has its share of the waiting room, and leaves room for others', async () => {
    const queue = createFairQueue({ ...roomy, waiting: 10, waitingPerPayer: 3 })
    await queue.acquire('a')
    for (let i = 0; i < 3; i += 1) void queue.acquire('a')
    await expect(queue.acquire('a')).rejects.toThrow('payer')
    // nobody may wait for more than is still free, so there is a place for the last one
    const outcomes: string[] = []
    for (const payer of 'bbbbbcccdde') void queue.acquire(payer).catch((error: Error) => outcomes.push(payer + error.message))
    await new Promise((resolve) => setImmediate(resolve))
    expect([queue.waiting, outcomes]).toEqual([10, ['bpayer', 'bpayer', 'cserver', 'dserver']])
  })

  test('a wait that is too long ends, and its place in the queue is gone', async () => {
    const queue = createFairQueue({ ...roomy, patienceMs: 20, late: () => new Error('late') })
    const leave = await queue.acquire('a')
    await expect(queue.acquire('b')).rejects.toThrow('late')
    expect(queue.waiting).toBe(0)
    leave()
    expect(queue.held).toBe(0)
  })

  test('a signal ends the waits, with its reason, and not what is held', async () => {
    const queue = createFairQueue({ ...roomy, patienceMs: 10_000 })
    const leave = await queue.acquire('a')
    const over = new AbortController()
    const waits = ['a', 'b'].map((payer) => queue.acquire(payer, over.signal))
    over.abort(new Error('away'))
    for (const wait of waits) await expect(wait).rejects.toThrow('away')
    expect([queue.held, queue.waiting]).toEqual([1, 0])
    leave()
    await queue.acquire('b', new AbortController().signal)
  })

  test('giving a place back twice gives back one', async () => {
    const queue = createFairQueue({ ...roomy, places: 2, placesPerPayer: 2 })
    const leave = await queue.acquire('a')
    await queue.acquire('a')
    leave()
    leave()
    expect(queue.held).toBe(1)
  })
})
