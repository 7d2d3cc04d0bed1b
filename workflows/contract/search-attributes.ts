import { defineSearchAttributeKey } from '@temporalio/common'
import { type SearchAttribute, searchAttributes } from '../../core/search-attributes.ts'
import type { WorkflowStart } from './messages.ts'

/** Converts the attributes of a start to the typed form of the SDK. */
export const typedSearchAttributes = (attributes: WorkflowStart['attributes']) =>
  Object.entries(attributes).map(([name, value]) =>
    searchAttributes[name as SearchAttribute] === 'Datetime'
      ? { key: defineSearchAttributeKey(name, 'DATETIME'), value: new Date(value) }
      : { key: defineSearchAttributeKey(name, 'KEYWORD'), value },
  )
