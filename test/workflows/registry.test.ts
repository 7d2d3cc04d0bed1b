import { expect, test } from 'vitest'
import * as definitions from '../../workflows/definitions/index.ts'
import { registry } from '../../workflows/registry.ts'

test('every workflow that is defined is registered, and the other way round', () => {
  expect(Object.keys(registry).sort()).toEqual(Object.keys(definitions).sort())
})
