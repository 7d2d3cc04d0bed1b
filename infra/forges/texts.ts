import { inlineCode, oneLine } from '../../core/inline-code.ts'
import type { ReportState } from './reports.ts'

export interface ReportFacts {
  readonly site_name: string
  readonly commit: string | undefined
  /** The branch. */
  readonly ref: string
  readonly state: ReportState | 'waiting_for_approval' | 'removed'
  /** The URL of the site or preview, once it is live. */
  readonly site_url: string | undefined
  readonly log_url: string | undefined
  readonly at: Date
  readonly duration_ms?: number | undefined
  /** The error in one line. */
  readonly error?: string | undefined
}

const words: Record<ReportFacts['state'], string> = {
  pending: '⏳ Building',
  success: '✅ Ready',
  failure: '❌ Failed',
  cancelled: '🚫 Cancelled',
  waiting_for_approval: '✋ Waiting for the approval of the site’s owner',
  removed: '🗑️ Removed',
}

/** The length of a status text at GitHub, which shows the least. */
const maxDescription = 140

/** One line of plain text beside a commit. */
export function statusText({ state, duration_ms, error }: Pick<ReportFacts, 'state' | 'duration_ms' | 'error'>): string {
  const seconds = duration_ms === undefined ? '' : ` in ${Math.max(1, Math.round(duration_ms / 1000))} s`
  const text = {
    pending: 'The site is being built',
    success: `Deployed${seconds}`,
    failure: error === undefined ? `The build failed${seconds}` : `The build failed: ${error}`,
    cancelled: `The deploy was ${error ?? 'cancelled'}`,
    waiting_for_approval: 'The owner of the site has to approve builds of this fork',
    removed: 'The preview was removed',
  }[state]
  const line = oneLine(text)
  return line.length <= maxDescription ? line : `${line.slice(0, maxDescription - 1).toWellFormed()}…`
}

/** The comment in a pull request, as markdown without HTML, which Bitbucket would show as text. */
export function commentText(facts: ReportFacts): string {
  const rows = [
    ['Site', inlineCode(facts.site_name)],
    ['Branch', inlineCode(facts.ref)],
    ['Commit', facts.commit === undefined ? '' : inlineCode(facts.commit.slice(0, 8))],
    ['State', words[facts.state]],
    ['Error', facts.state === 'failure' ? inlineCode(facts.error ?? '') : ''],
    ['Address', facts.state === 'removed' ? '' : link('Open', facts.site_url)],
    ['Log', link('Show', facts.log_url)],
    ['Updated', `${facts.at.toISOString().slice(0, 16).replace('T', ' ')} UTC`],
  ]
  const shown = rows.filter(([, value]) => value !== '').map(([name, value]) => `| ${name} | ${value} |`)
  return ['| Deploy | |', '|---|---|', ...shown].join('\n')
}

/** Links only to http and https URLs; characters that would end the link are escaped. */
function link(label: string, url: string | undefined): string {
  const parsed = url === undefined ? undefined : URL.parse(url)
  if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.username !== '' || parsed.password !== '') return ''
  const percent = (character: string) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`
  return `[${label}](${parsed.href.replaceAll(/[()<>|\\`[\]]/g, percent)})`
}
