import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { untilAborted } from '../../infra/pause.ts'

const never = () => new Promise<void>(() => undefined)

test('a wait ends with its work or with the abort, and leaves nothing on the signal', async () => {
  const stop = new AbortController()
  await untilAborted(Promise.resolve(), stop.signal)
  await expect(untilAborted(Promise.reject(new Error('of the work')), stop.signal)).rejects.toThrow('of the work')
  expect(getEventListeners(stop.signal, 'abort')).toEqual([])
  const waiting = untilAborted(never(), stop.signal)
  stop.abort()
  await waiting
  await untilAborted(never(), stop.signal)
  expect(getEventListeners(stop.signal, 'abort')).toEqual([])
})
