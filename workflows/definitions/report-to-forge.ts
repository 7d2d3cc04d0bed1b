import {
  CancellationScope,
  condition,
  continueAsNew,
  defineSignal,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  upsertMemo,
  workflowInfo,
} from '@temporalio/workflow'
import { inlineCode } from '../../core/inline-code.ts'
import { queues, signals } from '../contract/messages.ts'
import type { DueReport, ForgeReportsInput, ReportActivities } from '../contract/reports.ts'
import { causeOf } from './cause-of.ts'
import { timeNow } from './story.ts'

const { dueReports } = proxyLocalActivities<ReportActivities>({
  summary: 'look for what the forge does not know yet',
  startToCloseTimeout: '30s',
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '1m' },
})

/** How long a forge may be away. */
const patience = {
  commit: '6 hours',
  // Gitea answers for the comments of a pull request that is not there as if it were out of order
  comment: '1 hour',
} as const

const telling = (kind: DueReport['kind']) =>
  proxyActivities<ReportActivities>({
    taskQueue: queues.report,
    // a comment may have to be looked for on many pages
    startToCloseTimeout: '3m',
    heartbeatTimeout: '10s',
    scheduleToCloseTimeout: patience[kind],
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '5m' },
  })
const tellers = { commit: telling('commit'), comment: telling('comment') }

const { giveUpReport } = proxyActivities<ReportActivities>({
  summary: 'note that the forge does not take the report',
  startToCloseTimeout: '30s',
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '1m' },
})

const changedSignal = defineSignal(signals.changed)

/** How many lines of the past operators see. */
const maxPast = 20

interface Told {
  readonly told: number
  readonly given_up: number
}

/** Tells a site's forge what has become of deploys and previews, each report for itself, until it knows everything. */
export async function reportToForge(input: ForgeReportsInput): Promise<Told> {
  let changed = false
  const hear = () => {
    changed = true
  }
  setHandler(changedSignal, hear, { description: 'There is something new to tell: look again.' })
  const board = createBoard()
  do {
    changed = false
    const due = await dueReports(input)
    for (const report of due) {
      if (board.has(report)) continue
      board.begin(report)
      // what has come up meanwhile is due anew
      void tell(input, report, board).finally(hear)
    }
    await condition(() => changed || board.isEmpty())
    if (workflowInfo().continueAsNewSuggested && board.isEmpty()) await continueAsNew<typeof reportToForge>(input)
  } while (changed)
  return board.close()
}

async function tell({ project_id }: ForgeReportsInput, report: DueReport, board: Board): Promise<void> {
  try {
    const options = { summary: report.summary, priority: { fairnessKey: project_id } }
    await tellers[report.kind].sendReport.executeWithOptions(options, [report])
    board.end(report)
  } catch (error) {
    // the operator ends the whole workflow
    if (isCancellation(error)) return
    const reason = causeOf(error)
    await CancellationScope.nonCancellable(() => giveUpReport(report, reason))
    board.end(report, reason)
  }
}

/** What is being told, and what was told of late. */
function createBoard() {
  const present = new Map<string, string>()
  const past: string[] = []
  let told = 0
  let given_up = 0
  const keyOf = ({ kind, id }: DueReport) => `${kind}:${id}`

  function show(): void {
    const waiting = [...present.values()].map((line) => `⏳ ${line}`)
    setCurrentDetails([...past, ...waiting].join('\n\n'))
  }

  return {
    has: (report: DueReport) => present.has(keyOf(report)),
    isEmpty: () => present.size === 0,
    begin(report: DueReport): void {
      present.set(keyOf(report), `${report.summary}, since ${timeNow()}; tried again for ${patience[report.kind]}`)
      show()
    },
    /** @param reason why it was given up, in the words of the forge */
    end(report: DueReport, reason?: string): void {
      present.delete(keyOf(report))
      if (reason === undefined) told += 1
      else given_up += 1
      past.push(reason === undefined ? `✅ ${report.summary}` : `❌ ${report.summary}: ${inlineCode(reason)}`)
      past.splice(0, past.length - maxPast)
      show()
    },
    close(): Told {
      const outcome = given_up === 0 ? `✅ told ${told}` : `⚠️ told ${told}, given up ${given_up}`
      upsertMemo({ outcome })
      return { told, given_up }
    },
  }
}
type Board = ReturnType<typeof createBoard>
