import { expect, test } from 'vitest'
import { createSdkWriter } from '../../infra/temporal/runtime.ts'
import { keptLog } from '../kept-log.ts'

const { log, written } = keptLog()
const write = createSdkWriter(log)

function lineOf(error: unknown) {
  written.length = 0
  write('WARN', 'Activity failed', { error, durationMs: 7 })
  return JSON.parse(written.join('')) as { readonly error: any; readonly durationMs: number }
}

test('a failed activity is logged with the message, the type and the stack of its error', () => {
  expect(lineOf(new RangeError('the disk is full'))).toMatchObject({
    level: 40,
    msg: 'Activity failed',
    durationMs: 7,
    error: { type: 'RangeError', message: 'the disk is full', stack: expect.stringContaining('temporal-log.test.ts') },
  })
})

test('the messages of the causes follow, a few of them', () => {
  const cause = new Error('Activity task failed', { cause: new Error('the disk is full') })
  expect(lineOf(new Error('Workflow execution failed', { cause })).error.message).toBe(
    'Workflow execution failed: Activity task failed: the disk is full',
  )
  const endless = new Error('again')
  endless.cause = endless
  expect(lineOf(endless).error.message.split(': ')).toHaveLength(6)
})

test('what looks like a secret is masked, and other members of the error are left out', () => {
  const key = `svc_12345678_${'a'.repeat(43)}`
  const error = Object.assign(new Error(`${key} is refused`), { detail: 'Key (email)=(ada@example.com) already exists.' })
  const line = lineOf(error)
  expect(line.error.message).toBe('[masked] is refused')
  expect(JSON.stringify(line)).not.toMatch(/svc_1|ada@/)
})

test('long messages are cut', () => {
  expect(lineOf(new Error('x'.repeat(100_000))).error.message).toHaveLength(2000)
})

test('an error of our own log lines is described in the same way', () => {
  written.length = 0
  const error = Object.assign(new Error('duplicate key value'), {
    code: '23505',
    detail: 'Key (email)=(ada@example.com) already exists.',
  })
  log.error({ err: error }, 'request failed')
  const line = JSON.parse(written.join(''))
  expect(line.err).toEqual({ type: 'Error', code: '23505', message: 'duplicate key value', stack: expect.any(String) })
})

test('the token of a task is left out', () => {
  written.length = 0
  write('WARN', 'Activity failed', { taskToken: 'abc', durationMs: 7 })
  expect(JSON.parse(written.join(''))).not.toHaveProperty('taskToken')
})

test('a text in the place of an error is logged as it is', () => {
  expect(lineOf('refused').error).toBe('refused')
})
