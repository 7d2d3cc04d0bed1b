import type { Updateable } from 'kysely'
import { suspendedEmail } from '../../core/emails.ts'
import { conflict, invalid } from '../../core/errors.ts'
import type { PlanName } from '../../core/plans.ts'
import type { DB } from '../../infra/db/schema.ts'
import { queueEmailToOwner } from '../emails/emails.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import type { Services } from '../services.ts'
import { type ProjectRow, withProject } from './projects.ts'

/** Absent members stay as they are. */
export interface ProjectChange {
  readonly name?: string | undefined
  readonly owner_email?: string | undefined
  readonly plan?: PlanName | undefined
  readonly suspended?: boolean | undefined
  readonly suspended_reason?: string | null | undefined
  readonly form_balance_add?: number | undefined
}

/**
 * Changes a project for the operator. A suspension takes effect with the commit, and its owner gets an email about it and about each new reason.
 * @throws AppError `invalid` for a reason without a suspension; `conflict` when the project is being erased
 */
export function updateProject(services: Services, id: string, change: ProjectChange): Promise<ProjectRow> {
  const { config, clock, log } = services
  return withProject(services, id, async (tx, before) => {
    if (before.erasing) throw conflict('the project is being erased; it cannot be changed any more')
    const suspended = change.suspended ?? before.suspended
    const suspended_reason = suspended ? newReason(change, before) : null
    if (!suspended && change.suspended_reason)
      throw invalid('suspended_reason is only for a suspended project; suspend it as well')
    const set: Updateable<DB['projects']> = {
      name: change.name ?? before.name,
      owner_email: change.owner_email ?? before.owner_email,
      plan: change.plan ?? before.plan,
      suspended,
      suspended_reason,
      form_balance: before.form_balance + (change.form_balance_add ?? 0),
    }
    const after = await tx.updateTable('projects').set(set).where('id', '=', id).returningAll().executeTakeFirstOrThrow()
    if (after.suspended !== before.suspended || after.plan !== before.plan) await bumpRoutes(tx, { project_id: id })
    const isNews = !before.suspended || (suspended_reason !== null && suspended_reason !== before.suspended_reason)
    if (suspended && isNews) await queueEmailToOwner(tx, id, suspendedEmail(after), { sender: config.mail.from, now: clock() })
    tx.afterCommit(() => log.info({ project_id: id, plan: after.plan, suspended }, 'project updated'))
    return after
  })
}

const newReason = ({ suspended_reason }: ProjectChange, before: ProjectRow) =>
  suspended_reason === undefined ? before.suspended_reason : suspended_reason
