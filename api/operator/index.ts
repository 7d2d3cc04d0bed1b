import type { Operation } from '../operation.ts'
import { emailOperations } from './emails.ts'
import { engineOperations } from './engine.ts'
import { projectOperations } from './projects.ts'
import { siteOperations } from './sites.ts'
import { storageOperations } from './storage.ts'

export const operatorTags = { Operator: 'Everything that the operator of the installation does, with the operator token.' }

/** Every operation of the operator token. An address that sends many wrong tokens gets 429. */
export const operatorOperations: readonly Operation[] = [
  ...projectOperations,
  ...siteOperations,
  ...emailOperations,
  ...storageOperations,
  ...engineOperations,
].map((op) => ({
  ...op,
  errors: [...op.errors, 429],
}))
