import {
  CancellationScope,
  condition,
  continueAsNew,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  workflowInfo,
} from '@temporalio/workflow'
import { queues, signals } from '../contract/messages.ts'
import type { DueReport, ForgeReportsInput, ReportActivities } from '../contract/reports.ts'
import { causeOf } from './cause-of.ts'
import { createReportProgress, patience, type ReportProgress, type Told } from './report-progress.ts'
import { createSignalFlag } from './signal-flag.ts'

const { dueReports } = proxyLocalActivities<ReportActivities>({
  summary: 'look for reports that are due',
  startToCloseTimeout: '30s',
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '1m' },
})

const telling = (kind: DueReport['kind']) =>
  proxyActivities<ReportActivities>({
    taskQueue: queues.report,
    // a comment may have to be searched on many pages
    startToCloseTimeout: '3m',
    heartbeatTimeout: '10s',
    scheduleToCloseTimeout: patience[kind],
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '5m' },
  })
const tellers = { commit: telling('commit'), comment: telling('comment') }

const { giveUpReport } = proxyActivities<ReportActivities>({
  summary: 'record that the forge does not accept the report',
  startToCloseTimeout: '30s',
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '1m' },
})

/** Reports deploys and previews of a site to its forge, each report by itself, until the forge is up to date. */
export async function reportToForge(input: ForgeReportsInput): Promise<Told> {
  const changed = createSignalFlag(signals.changed, 'There is something new to tell: look again.')
  const progress = createReportProgress()
  do {
    changed.lower()
    const due = await dueReports(input)
    for (const report of due) {
      if (progress.has(report)) continue
      progress.started(report)
      // another report may have become due while this one was sent
      void tell(input, report, progress).finally(() => changed.raise())
    }
    await condition(() => changed.isRaised() || progress.isEmpty())
    if (workflowInfo().continueAsNewSuggested && progress.isEmpty()) await continueAsNew<typeof reportToForge>(input)
  } while (changed.isRaised())
  return progress.end()
}

async function tell({ project_id }: ForgeReportsInput, report: DueReport, progress: ReportProgress): Promise<void> {
  try {
    const options = { summary: report.summary, priority: { fairnessKey: project_id } }
    await tellers[report.kind].sendReport.executeWithOptions(options, [report])
    progress.ended(report)
  } catch (error) {
    // the operator ends the whole workflow
    if (isCancellation(error)) return
    const reason = causeOf(error)
    await CancellationScope.nonCancellable(() => giveUpReport(report, reason))
    progress.ended(report, reason)
  }
}
