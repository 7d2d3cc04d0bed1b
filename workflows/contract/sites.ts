import { shortName, signals, type WorkflowSignal, type WorkflowStart } from './messages.ts'

export interface TrashInput {
  readonly site_id: string
  /** RFC 3339 with milliseconds. Together with the site it identifies one move to the trash. */
  readonly purge_at: string
}

export interface SubdomainChangeInput {
  readonly site_id: string
  readonly change_id: string
  /** RFC 3339 with milliseconds. */
  readonly switch_at: string
}

export type TrashOutcome = 'purged' | 'restored'
export type SubdomainChangeOutcome = 'switched' | 'cancelled'

/** Activities of the control queue, implemented in `activities/sites.ts`. `early`: the instant has not come yet. Each may be repeated. */
export interface SiteActivities {
  /** Removes a site for good, if it is still in the trash since the same move. */
  purgeSite(input: TrashInput): Promise<TrashOutcome | 'early'>
  /** Moves a site to its new subdomain, if the change is still pending. */
  applySubdomainChange(input: SubdomainChangeInput): Promise<SubdomainChangeOutcome | 'early'>
}

interface SiteOfStart {
  readonly site_id: string
  readonly site_name: string
  readonly project_id: string
}

const trashWorkflowId = (site_id: string, purge_at: Date) => `trash:${site_id}:${purge_at.getTime()}`
const changeWorkflowId = (site_id: string, change_id: string) => `subdomain:${site_id}:${change_id}`

const attributesOf = ({ site_id, site_name, project_id }: SiteOfStart, due: Date) => ({
  ProjectId: project_id,
  SiteId: site_id,
  SiteName: site_name,
  Trigger: 'api',
  DueAt: due.toISOString(),
})

export function trashStart(site: SiteOfStart & { readonly purge_at: Date }): WorkflowStart<'expireTrashedSite', TrashInput> {
  const { site_id, purge_at } = site
  const input: TrashInput = { site_id, purge_at: purge_at.toISOString() }
  return {
    workflow_id: trashWorkflowId(site_id, purge_at),
    type: 'expireTrashedSite',
    input,
    summary: `**${shortName(site.site_name)}** in the trash until ${input.purge_at}`,
    attributes: attributesOf(site, purge_at),
  }
}

/** Signals that the site was restored, so that its workflow ends. */
export const restoredSignal = (site: { readonly site_id: string; readonly purge_at: Date }): WorkflowSignal<never> => ({
  workflow_id: trashWorkflowId(site.site_id, site.purge_at),
  signal: signals.changed,
})

export function subdomainChangeStart(
  change: SiteOfStart & {
    readonly change_id: string
    readonly old_subdomain: string
    readonly new_subdomain: string
    readonly switch_at: Date
  },
): WorkflowStart<'switchSubdomain', SubdomainChangeInput> {
  const { site_id, change_id, old_subdomain, new_subdomain, switch_at } = change
  const input: SubdomainChangeInput = { site_id, change_id, switch_at: switch_at.toISOString() }
  return {
    workflow_id: changeWorkflowId(site_id, change_id),
    type: 'switchSubdomain',
    input,
    summary: `**${shortName(change.site_name)}** ${old_subdomain} → ${new_subdomain} at ${input.switch_at}`,
    attributes: attributesOf(change, switch_at),
  }
}

export const cancelledSignal = (change: { readonly site_id: string; readonly change_id: string }): WorkflowSignal<never> => ({
  workflow_id: changeWorkflowId(change.site_id, change.change_id),
  signal: signals.changed,
})
