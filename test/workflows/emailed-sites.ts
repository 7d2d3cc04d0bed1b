import { expect } from 'vitest'
import { defaultPlans } from '../../core/plans.ts'
import { type FormSite, makeFormSite } from '../api/form-site.ts'
import { startMailServer } from '../infra/mail-server.ts'
import { type TestProject, type WorldOptions, world } from '../world.ts'
import { openTemporalClient } from './temporal-client.ts'

export const soon = { timeout: 60_000, interval: 50 }

/** A site of its own project, whose owner wants emails about submissions. */
export interface EmailedSite extends FormSite {
  readonly owner: TestProject
  readonly email: string
}

export type EmailedSites = Awaited<ReturnType<typeof openEmailedSites>>

/** A world with a mail server, and what happens to the emails about submissions in it. */
export async function openEmailedSites({ env, ...options }: WorldOptions = {}) {
  await using stack = new AsyncDisposableStack()
  const server = stack.use(await startMailServer())
  const plans = { ...defaultPlans, start: { ...defaultPlans.start, forms_per_month: 2 } }
  const w = stack.use(await world({ ...options, plans, env: { ...env, PLINTH_SMTP_URL: server.url } }))
  const temporal = await openTemporalClient(w, stack)
  let owners = 0

  const setEmails = ({ id, owner }: Pick<EmailedSite, 'id' | 'owner'>, notify_email: boolean) =>
    w.call(`PATCH /api/v1/sites/${id}/form`, { key: owner.key, json: { notify_email } })
  const receivedBy = ({ email }: EmailedSite) => server.received.filter(({ envelope }) => envelope.to.includes(email))
  const subjectsOf = (site: EmailedSite) => receivedBy(site).map(({ subject }) => subject)
  const stateOf = ({ id }: FormSite) =>
    w.db.selectFrom('site_forms').select(['digest_no', 'digest_at']).where('site_id', '=', id).executeTakeFirstOrThrow()
  const makeDue = ({ id }: FormSite) =>
    w.db.updateTable('site_forms').set({ digest_at: w.clock() }).where('site_id', '=', id).execute()

  /** Has the workflow look at the row now. */
  async function wake(workflowId: string): Promise<void> {
    const signalled = async () => {
      await temporal.workflow.getHandle(workflowId).signal('changed')
      return true
    }
    await expect.poll(() => signalled().catch(() => false), soon).toBe(true)
  }

  const disposal = stack.move()
  return {
    w,
    server,
    temporal,
    setEmails,
    receivedBy,
    subjectsOf,
    stateOf,
    makeDue,
    wake,
    /** The submissions that the emails to the owner are about, by their subjects. */
    countOf: (site: EmailedSite) => subjectsOf(site).reduce((sum, subject) => sum + (Number.parseInt(subject ?? '', 10) || 1), 0),

    async makeSite(plan: 'pro' | 'start' = 'pro'): Promise<EmailedSite> {
      const owner = await w.project(plan)
      const email = `owner-${++owners}@example.com`
      await w.db.updateTable('projects').set({ owner_email: email }).where('id', '=', owner.id).execute()
      const site = await makeFormSite(w, owner)
      await setEmails({ ...site, owner }, true)
      return { ...site, owner, email }
    },

    /** Posts once, so that submissions are gathered from here on. */
    async beginGathering(site: EmailedSite): Promise<void> {
      await site.post({ message: 'the first' })
      await expect.poll(() => subjectsOf(site), soon).toEqual(['A new form submission on A site'])
    },

    /** Ends the time for which submissions are gathered. Returns the id of the workflow, when it has ended. */
    async endPause(site: FormSite): Promise<string> {
      const id = `form-digest:${site.id}:${(await stateOf(site)).digest_no}`
      await makeDue(site)
      await wake(id)
      await temporal.workflow.getHandle(id).result()
      return id
    },

    async notificationsOf({ key }: TestProject) {
      const { body } = await w.call('GET /api/v1/notifications', { key })
      return body.notifications as { readonly kind: string; readonly title: string }[]
    },
    [Symbol.asyncDispose]: () => disposal.disposeAsync(),
  }
}
