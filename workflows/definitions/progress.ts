import { defineSearchAttributeKey } from '@temporalio/common'
import { setCurrentDetails, upsertMemo, upsertSearchAttributes } from '@temporalio/workflow'
import type { DeployOutcome, DeployReport } from '../contract/deploys.ts'

const statusKey = defineSearchAttributeKey('DeployStatus', 'KEYWORD')
// the beginning of a long error says what failed, its end says why
const firstErrorLines = 4
const lastErrorLines = 10
const maxLineLength = 300

/**
 * The progress of a deploy that operators read in the Temporal UI: the current details list the completed steps and the current one, the
 * search attribute has the status, the memo and the result have the outcome. Details are shown while a worker answers; the memo stays for good.
 */
export function createProgress() {
  let title = ''
  let status = 'queued'
  const past: string[] = []

  function show(present?: string): void {
    setCurrentDetails([title, ...past, ...(present === undefined ? [] : [present])].join('\n\n'))
  }

  function setStatus(next: string): void {
    if (next !== status) upsertSearchAttributes([{ key: statusKey, value: next }])
    status = next
  }

  return {
    setTitle(text: string): void {
      title = text
    },
    /** Shows the current step in place of the previous one. */
    showStep(text: string): void {
      show(`⏳ ${text}`)
    },
    /** Adds a completed step to the list. */
    addStep(text: string): void {
      past.push(text)
      show()
    },
    setStatus,
    /** @param rest the text of a failure below its first line */
    end(outcome: DeployOutcome, summary: string, rest: readonly string[] = []): DeployReport {
      past.push(summary, ...rest)
      setStatus(outcome)
      show()
      upsertMemo({ outcome: summary })
      return { outcome, summary }
    },
  }
}

/** Splits an error into a summary of one line and a block of the other lines, whose middle may be left out. */
export function errorLines(error: string): { readonly summary: string; readonly rest: readonly string[] } {
  const [first = '', ...others] = error.trimEnd().split('\n')
  const dropped = others.length - firstErrorLines - lastErrorLines
  const shown = dropped > 0 ? [...others.slice(0, firstErrorLines), '…', ...others.slice(-lastErrorLines)] : others
  const block = shown.map((line) => `    ${line.slice(0, maxLineLength)}`).join('\n')
  return { summary: `❌ ${first.slice(0, maxLineLength)}`, rest: shown.length > 0 ? [block] : [] }
}

/** The time of day, by the workflow's clock, which is the same in a replay. */
export const timeNow = () => `${new Date().toISOString().slice(11, 19)} UTC`
