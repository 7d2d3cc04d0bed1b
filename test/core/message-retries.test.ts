import { expect, test } from 'vitest'
import { maxMessageRefusals, messagePauseMs } from '../../core/message-retries.ts'

test.each([
  [0, 500, 1500],
  [1, 500, 1500],
  [2, 1000, 3000],
  [5, 8000, 24_000],
  [8, 60_000, 180_000],
  [1000, 60_000, 180_000],
])('after %i refusals a message waits between %i and %i ms', (refusals, least, most) =>
  expect([messagePauseMs(refusals, 0), messagePauseMs(refusals, 1)]).toEqual([least, most]),
)

test('a message that is refused for good is dead after one to four minutes', () => {
  const pauses = (random: number) =>
    Array.from({ length: maxMessageRefusals - 1 }, (_, i) => messagePauseMs(i + 1, random)).reduce((sum, pause) => sum + pause)
  expect([pauses(0), pauses(1)]).toEqual([63_500, 190_500])
})
