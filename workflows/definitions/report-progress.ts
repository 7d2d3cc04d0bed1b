import { setCurrentDetails, upsertMemo } from '@temporalio/workflow'
import { inlineCode } from '../../core/inline-code.ts'
import type { DueReport } from '../contract/reports.ts'
import { timeNow } from './progress.ts'

/** How long each kind of report is retried while the forge is away. */
export const patience = {
  commit: '6 hours',
  // for the comments of a missing pull request Gitea answers as if it were out of order
  comment: '1 hour',
} as const

/** How many past reports operators see. */
const maxPast = 20

export interface Told {
  readonly told: number
  readonly given_up: number
}

/** Shows operators the reports under way and the latest that have ended. */
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
    /** @param reason the forge's message, when the report was given up */
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
