import { type Selectable, sql } from 'kysely'
import { type FormPost, isTooSoon } from '../../core/forms.ts'
import type { PlanName } from '../../core/plans.ts'
import type { Db } from '../../infra/db/database.ts'
import { jsonb } from '../../infra/db/jsonb.ts'
import type { DB } from '../../infra/db/schema.ts'
import { isVerifiedDomain } from '../domain-predicates.ts'
import { type ProjectRow, withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { type Tx, transact } from '../transact.ts'
import { recordFormReceived } from '../webhooks/events.ts'
import { type RateBlock, takeRates } from './rates.ts'
import { countInProject, countOnSite } from './site-forms.ts'
import { charge, chargeFarBelow, isNearLimit, spamLimit } from './usage.ts'

/** A site as its form endpoint sees it. */
export interface FormSite {
  readonly site_id: string
  readonly project_id: string
  readonly subdomain: string
  /** Verified custom domains. */
  readonly domains: readonly string[]
  readonly plan: PlanName
  readonly suspended: boolean
}

/** Undefined when there is no such site outside the trash. */
export async function findFormSite(db: Db, id: string): Promise<FormSite | undefined> {
  const { rows } = await sql<FormSite>`
    select sites.id as site_id, sites.project_id, sites.subdomain, projects.plan, projects.suspended,
      array(select domain from domains where domains.site_id = sites.id and ${isVerifiedDomain}) as domains
    from sites join projects on projects.id = sites.project_id
    where sites.id = ${id} and sites.deletion_scheduled_at is null`.execute(db)
  return rows[0]
}

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
 * Stores a submission with everything that counts it, in one transaction. The rates are taken first; what the quota does not pay for is stored
 * hidden. Only near the limit of its plan does a submission take the project's lock.
 */
export async function submit(services: Services, site: FormSite, post: Submitted): Promise<Outcome> {
  const { db, config, clock } = services
  const now = clock()
  const isCharged = !post.trapped && !isTooSoon(post, now)
  const limit = config.plans[site.plan].forms_per_month
  if (!isCharged || !(await isNearLimit(db, site.project_id, limit, now))) {
    const outcome = await orUndone(transact(services, (tx) => store(tx, services, { site, post })))
    if (outcome.kind !== 'near limit') return outcome
  }
  const exactly = withProject(services, site.project_id, (tx, project) => store(tx, services, { site, post, project }))
  return (await orUndone(exactly)) as Outcome
}

interface Storing {
  readonly site: FormSite
  readonly post: Submitted
  /** Set when its lock is held. */
  readonly project?: ProjectRow
}

/** Rolls the transaction back that it is thrown in. */
class Undone extends Error {
  readonly outcome: Outcome | { readonly kind: 'near limit' }

  constructor(outcome: Undone['outcome']) {
    super(outcome.kind)
    this.outcome = outcome
  }
}

async function orUndone(storing: Promise<Outcome>): Promise<Undone['outcome']> {
  try {
    return await storing
  } catch (error) {
    if (error instanceof Undone) return error.outcome
    throw error
  }
}

async function store(tx: Tx, services: Services, { site, post, project }: Storing): Promise<Outcome> {
  const { config, clock } = services
  const now = clock()
  const block = await takeRates(tx, { site_id: site.site_id, network: post.network }, now)
  if (block) throw new Undone({ kind: 'blocked', block })
  if (post.trapped) return { kind: 'dropped' }
  if (post.requestId !== undefined && (await isStored(tx, site.site_id, post.requestId))) return { kind: 'duplicate' }
  const limit = config.plans[site.plan].forms_per_month
  if (isTooSoon(post, now)) {
    if ((await countInProject(tx, site.project_id, 'spam')) >= spamLimit(limit)) return { kind: 'dropped' }
    return await insert(tx, site, post, { status: 'spam', charged: false, hidden_no: null, created_at: now })
  }
  if (!project) {
    if (!(await chargeFarBelow(tx, site.project_id, limit, now))) throw new Undone({ kind: 'near limit' })
    return await insert(tx, site, post, { status: 'verified', charged: true, hidden_no: null, created_at: now })
  }
  const charged = await charge(tx, services, project, now)
  if (charged.kind === 'exhausted') return { kind: 'exhausted' }
  const hidden_no = charged.kind === 'hidden' ? charged.hidden_no : null
  return await insert(tx, site, post, { status: 'verified', charged: hidden_no === null, hidden_no, created_at: now })
}

async function isStored(tx: Tx, siteId: string, requestId: string): Promise<boolean> {
  const row = await tx
    .selectFrom('form_submissions')
    .select('id')
    .where('site_id', '=', siteId)
    .where('request_id', '=', requestId)
    .executeTakeFirst()
  return row !== undefined
}

type Stored = Pick<Selectable<DB['form_submissions']>, 'status' | 'charged' | 'hidden_no' | 'created_at'>

/** Inserts a submission and counts it, unless its site was moved to the trash or the same request was stored a moment ago. */
async function insert(tx: Tx, { site_id, project_id }: FormSite, post: Submitted, stored: Stored): Promise<Outcome> {
  const { status, charged, hidden_no, created_at } = stored
  const { rows } = await sql<{ id: string }>`
    insert into form_submissions
      (project_id, site_id, status, charged, hidden_no, data, request_id, user_agent, created_at)
    select project_id, id, ${status}::text, ${charged}::boolean, ${hidden_no}::bigint, ${jsonb(post.data)},
      ${post.requestId ?? null}::uuid, ${post.user_agent}::text, ${created_at}::timestamptz
    from sites where id = ${site_id} and project_id = ${project_id} and deletion_scheduled_at is null for key share
    on conflict (site_id, request_id) do nothing
    returning id`.execute(tx)
  const [inserted] = rows
  if (!inserted) throw new Undone({ kind: (await findFormSite(tx, site_id)) ? 'duplicate' : 'gone' })
  await countOnSite(tx, { site_id, project_id }, { [status]: 1, ...(hidden_no !== null && { hidden: 1 }) })
  const isShown = status === 'verified' && hidden_no === null
  if (isShown) await recordFormReceived(tx, { project_id, site_id, submission_id: inserted.id }, created_at)
  return { kind: 'accepted' }
}
