import { resolve } from 'node:path'
import { execa } from 'execa'
import { expect, test } from 'vitest'
import { report } from './platform.ts'

test('88: the registry knows of no high or critical vulnerability in what runs in production', async (context) => {
  const cwd = resolve(import.meta.dirname, '../..')
  const { stdout } = await execa('npm', ['audit', '--omit=dev', '--json'], { cwd, reject: false })
  const { metadata, message } = JSON.parse(stdout) as {
    metadata?: { vulnerabilities: Readonly<Record<'high' | 'critical', number>> }
    message?: string
  }
  if (!metadata) {
    report('88', `not asked: the registry says ${message}`, '0 high')
    context.skip()
    return
  }
  const { high, critical } = metadata.vulnerabilities
  report('88', `${high} high, ${critical} critical`, '0 high')
  expect([high, critical]).toEqual([0, 0])
})
