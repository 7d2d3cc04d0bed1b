import { expect, test } from 'vitest'
import { createWatches } from '../../api/watches.ts'

const never = new AbortController().signal

/** Watches of texts, which a test changes. */
function watched() {
  const looks: string[] = []
  const failures: unknown[] = []
  const state = { text: 'a', fails: false }
  const watches = createWatches<string>({
    everyMs: 5,
    look: async (id) => {
      looks.push(id)
      if (state.fails) throw new Error('away')
      return state.text
    },
    onFailure: (_id, error) => failures.push(error),
  })
  return { watches, looks, failures, state }
}

test('the first follower begins with what it has read, others with the last look', async () => {
  const { watches, state } = watched()
  using one = await watches.join('x', () => 'first')
  expect(one.latest).toBe('first')
  await one.next('change', never)
  expect(one.latest).toBe('a')
  state.text = 'b'
  await one.next('change', never)
  using two = await watches.join('x', () => expect.unreachable())
  expect(two.latest).toBe('b')
})

test('followers who come at the same time share a watch, and others have their own', async () => {
  const { watches, looks } = watched()
  const joined = await Promise.all(['x', 'x', 'x', 'y'].map((id) => watches.join(id, async () => 'a')))
  for (let n = 0; n < 3; n++) await joined[0]?.next('look', never)
  const ofX = looks.filter((id) => id === 'x').length
  expect([ofX, new Set(looks)]).toEqual([3, new Set(['x', 'y'])])
  for (const watch of joined) watch[Symbol.dispose]()
})

test('a look that fails changes nothing, and the next one is made in time', async () => {
  const { watches, failures, state } = watched()
  using watch = await watches.join('x', () => 'a')
  state.fails = true
  await watch.next('look', never)
  expect([watch.latest, failures]).toEqual(['a', [new Error('away')]])
  Object.assign(state, { text: 'b', fails: false })
  await watch.next('change', never)
  expect(watch.latest).toBe('b')
})

test('nobody looks any more once the last follower has left', async () => {
  const { watches, looks } = watched()
  const [one, two] = [await watches.join('x', () => 'a'), await watches.join('x', () => 'a')]
  one[Symbol.dispose]()
  await two.next('look', never)
  two[Symbol.dispose]()
  const before = looks.length
  await new Promise((resolve) => setTimeout(resolve, 30))
  expect(looks.length).toBe(before)
})

test('waiting ends when its signal is aborted', async () => {
  const { watches } = watched()
  using watch = await watches.join('x', () => 'a')
  const left = new AbortController()
  const waiting = watch.next('change', left.signal)
  left.abort()
  await expect(waiting).resolves.toBeUndefined()
})
