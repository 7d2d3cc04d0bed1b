import { suspendedEmail } from '../../core/emails.ts'
import { conflict, invalid } from '../../core/errors.ts'
import type { PlanName } from '../../core/plans.ts'
import { queueEmailToOwner } from '../emails/emails.ts'
import { bumpRoutes } from '../feeds/routes.ts'
import { revealHidden } from '../forms/reveal.ts'
import { type ProjectRow, withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'

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
 * Changes a project for the operator. A higher plan or a larger balance reveals hidden form submissions. A suspension takes effect with the commit, and its owner gets an email about it and about each new reason.
 * @throws AppError `invalid` for a reason without a suspension and for a balance out of range; `conflict` when the project is being erased
 */
export function updateProject(services: Services, id: string, change: ProjectChange): Promise<ProjectRow> {
  const { config, clock, log } = services
  const quotaOf = (plan: PlanName) => config.plans[plan].forms_per_month
  return withProject(services, id, async (tx, before) => {
    if (before.erasing) throw conflict('the project is being erased; it cannot be changed any more')
    const suspended = change.suspended ?? before.suspended
    const suspended_reason = suspended ? newReason(change, before) : null
    if (!suspended && change.suspended_reason)
      throw invalid('suspended_reason is only for a suspended project; suspend it as well')
    const set = {
      name: change.name ?? before.name,
      owner_email: change.owner_email ?? before.owner_email,
      plan: change.plan ?? before.plan,
      suspended,
      suspended_reason,
      form_balance: newBalance(before, change),
    }
    const capacity = { before: quotaOf(before.plan), after: quotaOf(set.plan), bought: change.form_balance_add ?? 0 }
    set.form_balance = await revealHidden(tx, { ...before, form_balance: set.form_balance }, capacity, clock())
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

const maxBalance = 1_000_000_000

/** @throws AppError `invalid` */
function newBalance({ form_balance }: ProjectRow, { form_balance_add = 0 }: ProjectChange): number {
  const sum = form_balance + form_balance_add
  if (Math.abs(sum) > maxBalance) throw invalid(`the form balance would be ${sum}; it may be at most ${maxBalance}`)
  return sum
}
