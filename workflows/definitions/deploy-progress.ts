import { workflowInfo } from '@temporalio/workflow'
import { counted } from '../../core/amounts.ts'
import { inlineCode } from '../../core/inline-code.ts'
import type { BuildResult } from '../contract/builds.ts'
import type { ClaimedWork, DeployReport, DeployRunInput, FailedBuild, FinishedBuild } from '../contract/deploys.ts'
import type { FetchResult } from '../contract/fetches.ts'
import { causeOf } from './cause-of.ts'
import { createProgress, errorLines, timeNow } from './progress.ts'

type PreviewState = NonNullable<Extract<FinishedBuild, { status: 'ready' }>['preview']>

const previewTexts: Readonly<Record<PreviewState, string>> = {
  shown: '✅ the link of the preview shows it',
  closed: '➖ the preview was closed in the meantime, so no link shows the deploy',
  overtaken: '➖ the link of the preview shows a later one',
}

const endings = {
  ready: '✅ ready, not published',
  active: '✅ live',
  superseded: '➖ not published: a later deploy is live, or the site is in the trash',
  stale: '➖ another run owns this deploy, or it has ended',
} as const

/** Presents the steps of a deploy to operators. */
export function createDeployProgress({ deploy_id }: DeployRunInput) {
  const progress = createProgress()

  return {
    claimed({ site_name, seq, source_kind, git_ref }: ClaimedWork): void {
      const ref = git_ref === null ? '' : ` ${inlineCode(git_ref)}`
      progress.setTitle(`**${site_name}** · deploy ${seq} from ${source_kind}${ref}`)
    },
    waitsForPermit(since: string, waitsFor: string): void {
      progress.showStep(`queued since ${since}; at ${timeNow()}: ${waitsFor}`)
    },
    fetches(tries: number): void {
      progress.showStep(`fetches the repository since ${timeNow()}, try ${tries} of up to five; then the build`)
    },
    repositoryIsAway({ error, retry_after_ms }: Extract<FetchResult, { outcome: 'away' }>, tries: number): void {
      const { summary } = errorLines(error)
      progress.showStep(`${summary}; at ${timeNow()} it waits ${retry_after_ms / 1000} s for try ${tries + 1}`)
    },
    fetched({ git, facts }: Extract<FetchResult, { outcome: 'fetched' }>): void {
      const { commit, message, author, ref } = git
      const words = [inlineCode(`${ref}@${commit.slice(0, 7)}`), inlineCode(message), 'by', inlineCode(author)]
      progress.addStep(`✅ fetched ${words.filter((word) => word !== '').join(' ')} (${facts})`)
    },
    waitsForSlot(): void {
      progress.showStep(`waits for a free build slot since ${timeNow()}`)
    },
    buildStarted(attempt: number): void {
      progress.setStatus('building')
      if (attempt === 1) progress.addStep(`✅ began after ${secondsSinceStart()} s in the queue`)
      progress.showStep(`building since ${timeNow()}${attempt > 1 ? `, try ${attempt}` : ''}`)
    },
    built({ build_mode, build_seconds, ...result }: BuildResult): void {
      const files = result.outcome === 'built' ? `, ${counted(result.file_count, 'file')}` : ''
      progress.addStep(build_mode === 'build' ? `✅ built in ${build_seconds} s${files}` : `✅ unpacked without a build${files}`)
    },
    previewUpdated(preview: PreviewState): void {
      progress.addStep(previewTexts[preview])
    },
    published(): void {
      progress.setStatus('active')
      progress.addStep('✅ published')
    },
    purged(count: number): void {
      if (count > 0) progress.addStep(`✅ ${counted(count, 'old deploy')} purged`)
    },
    notPurged(error: unknown): void {
      progress.addStep(`⚠️ old deploys were not purged: ${firstLine(causeOf(error))}`)
    },
    checked(recommendations: number): void {
      if (recommendations > 0) progress.addStep(`💡 ${counted(recommendations, 'recommendation')}`)
    },
    notChecked(error: unknown): void {
      progress.addStep(`⚠️ the files were not looked through: ${firstLine(causeOf(error))}`)
    },
    failed({ error, cancelled }: FailedBuild): DeployReport {
      if (cancelled) return progress.end('cancelled', `🚫 ${inlineCode(error)}`, [whereTheLogIs(deploy_id)])
      const { summary, rest } = errorLines(error)
      return progress.end('failed', summary, [...rest, whereTheLogIs(deploy_id)])
    },
    end: (outcome: keyof typeof endings): DeployReport => progress.end(outcome, endings[outcome]),
  }
}
export type DeployProgress = ReturnType<typeof createDeployProgress>

export const firstLine = (text: string) => text.split('\n', 1)[0] ?? ''

const secondsSinceStart = () => Math.round((Date.now() - workflowInfo().startTime.getTime()) / 1000)

const whereTheLogIs = (deployId: string) =>
  `The log of the build: \`GET /api/v1/deploys/${deployId}/logs\`; faults of the platform: the activities \`fetchRepository\` and \`buildSource\` below`
