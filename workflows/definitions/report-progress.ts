import { setCurrentDetails, upsertMemo } from '@temporalio/workflow'
import { inlineCode } from '../../core/inline-code.ts'
import type { DueReport } from '../contract/reports.ts'
import { timeNow } from './progress.ts'

/** How long a forge may be away. */
export const patience = {
  commit: '6 hours',
  // Gitea answers for the comments of a pull request that is not there as if it were out of order
  comment: '1 hour',
} as const

/** How many lines of the past operators see. */
const maxPast = 20

export interface Told {
  readonly told: number
  readonly given_up: number
}

/** The reports that are under way, and for operators also the latest that ended. */
export function createReportProgress() {
  const underWay = new Map<string, string>()
  const past: string[] = []
  let told = 0
  let given_up = 0
  const keyOf = ({ kind, id }: DueReport) => `${kind}:${id}`

  function show(): void {
    const waiting = [...underWay.values()].map((line) => `⏳ ${line}`)
    setCurrentDetails([...past, ...waiting].join('\n\n'))
  }

  return {
    has: (report: DueReport) => underWay.has(keyOf(report)),
    isEmpty: () => underWay.size === 0,
    started(report: DueReport): void {
      underWay.set(keyOf(report), `${report.summary}, since ${timeNow()}; tried again for ${patience[report.kind]}`)
      show()
    },
    /** @param reason why it was given up, in the words of the forge */
    ended(report: DueReport, reason?: string): void {
      underWay.delete(keyOf(report))
      if (reason === undefined) told += 1
      else given_up += 1
      past.push(reason === undefined ? `✅ ${report.summary}` : `❌ ${report.summary}: ${inlineCode(reason)}`)
      past.splice(0, past.length - maxPast)
      show()
    },
    end(): Told {
      const outcome = given_up === 0 ? `✅ told ${told}` : `⚠️ told ${told}, given up ${given_up}`
      upsertMemo({ outcome })
      return { told, given_up }
    },
  }
}
export type ReportProgress = ReturnType<typeof createReportProgress>
