import { describe, expect, test } from 'vitest'
import { FairQueue, type FairQueueLimits } from '../../infra/fair-queue.ts'

const overflow = (why: string) => new Error(why)
const roomy: FairQueueLimits = { slots: 1, waitingRoom: { total: 1000, perPayer: 500, overflow } }

/** Requests a slot for each of the payers in turn, releases each at once, and returns the order in which the payers got theirs. */
async function orderOf(payers: string, limits: Partial<FairQueueLimits> = {}): Promise<string> {
  const queue = new FairQueue({ ...roomy, ...limits })
  const first = await queue.acquire('first')
  let order = ''
  const all = payers.split('').map(async (payer) => {
    const release = await queue.acquire(payer)
    order += payer
    await Promise.resolve()
    release()
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

  test('gives a free slot to the payer that holds the fewest', async () => {
    const queue = new FairQueue({ ...roomy, slots: 3 })
    const [one] = [await queue.acquire('a'), await queue.acquire('a'), await queue.acquire('a')]
    let order = ''
    void queue.acquire('a').then(() => (order += 'a'))
    void queue.acquire('b').then(() => (order += 'b'))
    one?.()
    await new Promise((resolve) => setImmediate(resolve))
    expect(order).toBe('b')
  })

  test('gives no payer more slots than its own, even when others are free', async () => {
    const queue = new FairQueue({ ...roomy, slots: 3, slotsPerPayer: 2 })
    await queue.acquire('a')
    await queue.acquire('a')
    void queue.acquire('a')
    expect([queue.held, queue.waiting]).toEqual([2, 1])
    await queue.acquire('b')
    expect([queue.held, queue.waiting]).toEqual([3, 1])
  })

  test('refuses a payer that has its share of the waiting room, and leaves room for others', async () => {
    const queue = new FairQueue({ ...roomy, waitingRoom: { total: 10, perPayer: 3, overflow } })
    await queue.acquire('a')
    for (let i = 0; i < 3; i += 1) void queue.acquire('a')
    await expect(queue.acquire('a')).rejects.toThrow('payer')
    // nobody may wait for more than is still free, so there is room for the last one
    const outcomes: string[] = []
    for (const payer of 'bbbbbcccdde') void queue.acquire(payer).catch((error: Error) => outcomes.push(payer + error.message))
    await new Promise((resolve) => setImmediate(resolve))
    expect([queue.waiting, outcomes]).toEqual([10, ['bpayer', 'bpayer', 'cserver', 'dserver']])
  })

  test('a wait that is too long ends and leaves the queue', async () => {
    const queue = new FairQueue({ ...roomy, patience: { ms: 20, late: () => new Error('late') } })
    const release = await queue.acquire('a')
    await expect(queue.acquire('b')).rejects.toThrow('late')
    expect(queue.waiting).toBe(0)
    release()
    expect(queue.held).toBe(0)
  })

  test('a signal ends the waits, with its reason, and not what is held', async () => {
    const queue = new FairQueue({ ...roomy, patience: { ms: 10_000, late: () => new Error('late') } })
    const release = await queue.acquire('a')
    const over = new AbortController()
    const waits = ['a', 'b'].map((payer) => queue.acquire(payer, over.signal))
    over.abort(new Error('away'))
    for (const wait of waits) await expect(wait).rejects.toThrow('away')
    expect([queue.held, queue.waiting]).toEqual([1, 0])
    release()
    await queue.acquire('b', new AbortController().signal)
  })

  test('releasing a slot twice releases one', async () => {
    const queue = new FairQueue({ ...roomy, slots: 2 })
    const release = await queue.acquire('a')
    await queue.acquire('a')
    release()
    release()
    expect(queue.held).toBe(1)
  })
})
