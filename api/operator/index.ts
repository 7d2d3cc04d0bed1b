import type { Operation } from '../operation.ts'
import { projectOperations } from './projects.ts'

/** Every operation of the operator token. */
export const operatorOperations: readonly Operation[] = [...projectOperations]
