import { sql } from 'kysely'
import { type FormPost, isTooSoon } from '../../core/forms.ts'
import type { Db } from '../../infra/db/database.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { transact } from '../transact.ts'
import type { FormSite } from './form-site.ts'
import { insertSubmission, isRepeated, isShown, type NewSubmission } from './insert-submission.ts'
import { findBlock, type RateBlock, takePost } from './rates.ts'
import { hasFollowUps, recordReceived } from './received.ts'
import { charge, chargeShare, spamLimit } from './usage.ts'

export interface Submitted extends Pick<FormPost, 'data' | 'trapped' | 'shownAt' | 'requestId'> {
  /** The network of the client's address. */
  readonly network: string
  readonly user_agent: string | null
}

/** `accepted`: stored, perhaps as spam or hidden. `dropped`: not stored. The visitor gets the same answer for both and for `duplicate`. */
export type Outcome =
  | { readonly kind: 'accepted' | 'dropped' | 'duplicate' | 'exhausted' | 'gone' }
  | { readonly kind: 'blocked'; readonly block: RateBlock }

/**
 * Stores a submission with everything that counts it. One statement takes the rates, charges the submission to its share of the quota and stores
 * it; a transaction follows only when no share is left. What the quota does not pay for is stored hidden.
 */
export async function submit(services: Services, site: FormSite, post: Submitted): Promise<Outcome> {
  const now = services.clock()
  const posting = { site_id: site.site_id, network: post.network }
  try {
    const taken = await takeAndStore(services, site, post, now)
    if (!taken.is_open) return { kind: 'gone' }
    if (!taken.has_address_rate) return { kind: 'blocked', block: await findBlock(services.db, posting, 'address', now) }
    if (!taken.has_site_rate) return { kind: 'blocked', block: await findBlock(services.db, posting, 'site', now) }
    if (post.trapped) return { kind: 'dropped' }
    if (!taken.is_new) return { kind: 'duplicate' }
    if (taken.id !== null) return { kind: 'accepted' }
    return isTooSoon(post, now) ? { kind: 'dropped' } : await storeExactly(services, site, post, now)
  } catch (error) {
    if (isRepeated(error)) return { kind: 'duplicate' }
    throw error
  }
}

/** How far a post came: each step is taken only after the one before. */
interface Taken {
  readonly is_open: boolean
  readonly has_address_rate: boolean
  readonly has_site_rate: boolean
  /** Whether the request was not stored before. */
  readonly is_new: boolean
  /** Null when there was no room. */
  readonly id: string | null
}

function takeAndStore(services: Services, site: FormSite, post: Submitted, now: Date): Promise<Taken> {
  const isFollowed = hasFollowUps(site, now) && !post.trapped && !isTooSoon(post, now)
  if (!isFollowed) return runSteps(services.db, services, { site, post, now })
  return transact(services, async (tx) => {
    const taken = await runSteps(tx, services, { site, post, now })
    if (taken.id !== null) await recordReceived(tx, site, { id: taken.id }, now)
    return taken
  })
}

async function runSteps(
  db: Db,
  { config }: Pick<Services, 'config'>,
  { site, post, now }: { readonly site: FormSite; readonly post: Submitted; readonly now: Date },
): Promise<Taken> {
  const { site_id, project_id } = site
  const posting = { site_id, network: post.network }
  const limit = config.plans[site.plan].forms_per_month
  const kind = post.trapped ? 'trapped' : isTooSoon(post, now) ? 'spam' : 'paid'
  const rooms = {
    trapped: sql`select 1 where false`,
    spam: sql`
      select 1 from new_request, (select sum(spam) as spam from site_forms where project_id = ${project_id}) kept
      where coalesce(kept.spam, 0) < ${spamLimit(limit)}`,
    paid: chargeShare(project_id, limit, now, 'new_request'),
  }
  const { rows } = await sql<Taken>`
    with open_site as materialized (
      select id from sites where id = ${site_id} and deletion_scheduled_at is null for key share),
    address_rate as (${takePost(posting, 'address', now, 'open_site')}),
    site_rate as (${takePost(posting, 'site', now, 'address_rate')}),
    new_request as materialized (
      select key from site_rate where not exists (
        select from form_submissions where site_id = ${site_id} and request_id = ${post.requestId ?? null}::uuid)),
    room as (${rooms[kind]}),
    ${insertSubmission(newSubmission(site, post, now, kind === 'spam' ? spam : paid), 'room')}
    select exists (select from open_site) as is_open, exists (select from address_rate) as has_address_rate,
      exists (select from site_rate) as has_site_rate, exists (select from new_request) as is_new, (select id from stored) as id`.execute(
    db,
  )
  const [taken] = rows
  if (!taken) throw new Error('the statement returned no row')
  return taken
}

type Payment = Pick<NewSubmission, 'status' | 'charged' | 'hidden_no'>
const spam: Payment = { status: 'spam', charged: false, hidden_no: null }
const paid: Payment = { status: 'verified', charged: true, hidden_no: null }

const newSubmission = (
  { site_id, project_id, notify_email }: FormSite,
  { data, requestId, user_agent }: Submitted,
  created_at: Date,
  payment: Payment,
): NewSubmission => {
  const email_pending = isShown(payment) && notify_email
  return { site_id, project_id, data, request_id: requestId, user_agent, created_at, ...payment, email_pending }
}

/** Stores a submission whose rates are taken, but whose share of the quota is used up. */
function storeExactly(services: Services, site: FormSite, post: Submitted, now: Date): Promise<Outcome> {
  const { site_id, project_id } = site
  return withProject(services, project_id, async (tx, project): Promise<Outcome> => {
    const found = await sql<{ is_stored: boolean }>`
      select exists (
        select from form_submissions where site_id = ${site_id} and request_id = ${post.requestId ?? null}::uuid) as is_stored
      from sites where id = ${site_id} and deletion_scheduled_at is null for key share`.execute(tx)
    const [state] = found.rows
    if (!state) return { kind: 'gone' }
    if (state.is_stored) return { kind: 'duplicate' }
    const charged = await charge(tx, services, project, now)
    if (charged.kind === 'exhausted') return { kind: 'exhausted' }
    const payment: Payment = charged.kind === 'hidden' ? { ...paid, charged: false, hidden_no: charged.hidden_no } : paid
    const { rows } = await sql<{ id: string }>`
      with room as (select 1), ${insertSubmission(newSubmission(site, post, now, payment), 'room')}
      select id from stored`.execute(tx)
    const [stored] = rows
    if (stored && payment.hidden_no === null && hasFollowUps(site, now)) await recordReceived(tx, site, stored, now)
    return { kind: 'accepted' }
  })
}
