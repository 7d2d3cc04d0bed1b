import { invalid } from '../../core/errors.ts'
import { open, seal } from '../../infra/crypto/seal.ts'
import { makeWebhookSecret } from '../../infra/crypto/webhook-signatures.ts'
import { closeBranchPreviewsOfSite } from '../previews/branch-previews.ts'
import { withProject } from '../projects/projects.ts'
import type { Services } from '../services.ts'
import { lockLiveSite, lockSite, type SiteRow } from '../sites/sites.ts'
import type { Tx } from '../transact.ts'
import { notConnected } from './accept.ts'
import {
  type ConnectionSettings,
  deleteConnection,
  findConnection,
  forgetForge,
  type GitConnectionRow,
  saveConnection,
  setWebhookSecret,
} from './connections.ts'
import type { FindDefaultBranch } from './default-branch.ts'

type Site = Pick<SiteRow, 'id' | 'project_id'>

/** What the owner chooses; without a branch, see {@link connectRepository}. */
type ChosenSettings = Omit<ConnectionSettings, 'site_id' | 'project_id' | 'token_sealed' | 'branch'> & {
  readonly branch: string | undefined
}

/**
 * Connects a repository to the site, or changes the connection. The state of another repository is forgotten. Without a branch, the same
 * repository keeps its branch, and another one gets its default branch.
 * @param token kept when undefined, erased by null
 * @throws AppError `invalid` when the kept token is for another server; `conflict` when the site is in the trash
 */
export async function connectRepository(
  services: Services & { readonly findDefaultBranch: FindDefaultBranch },
  { id: site_id, project_id }: Site,
  settings: ChosenSettings,
  token: string | null | undefined,
): Promise<GitConnectionRow> {
  const { clock, log } = services
  const found = settings.branch ?? (await defaultBranch(services, { id: site_id, project_id }, settings.repo_url, token))
  return await withProject(services, project_id, async (tx) => {
    await lockLiveSite(tx, project_id, site_id)
    const before = await findConnection(tx, site_id)
    const token_sealed = token === undefined ? keptToken(before, settings.repo_url) : sealToken(services, site_id, token)
    const isSame = before !== undefined && isSameRepository(before.repo_url, settings.repo_url)
    if (before && !isSame) await forgetRepository(tx, site_id, clock())
    const branch = settings.branch ?? (isSame ? before.branch : found)
    tx.afterCommit(() => log.info({ site_id }, 'repository connected'))
    return await saveConnection(tx, { site_id, project_id, ...settings, branch, token_sealed }, clock())
  })
}

/** The branch of the connection to the same repository, or the default branch of another one. It is looked up outside of any transaction. */
async function defaultBranch(
  { db, keyring, findDefaultBranch }: Parameters<typeof connectRepository>[0],
  { id, project_id }: Site,
  repo_url: string,
  token: string | null | undefined,
): Promise<string> {
  const before = await findConnection(db, id)
  if (before && isSameRepository(before.repo_url, repo_url)) return before.branch
  const kept = token === undefined ? keptToken(before, repo_url) : null
  const known = kept === null ? token : open(keyring, kept, { table: 'git_connections', id, column: 'token_sealed' })
  return await findDefaultBranch(project_id, { repo_url, token: known ?? undefined })
}

/** Disconnects the repository, with its token, webhook and deploy hook. Does nothing when none is connected. */
export function disconnectRepository(services: Services, { id: site_id, project_id }: Site): Promise<void> {
  return withProject(services, project_id, async (tx) => {
    await lockSite(tx, project_id, site_id)
    if (!(await deleteConnection(tx, project_id, site_id))) return
    await forgetRepository(tx, site_id, services.clock())
    tx.afterCommit(() => services.log.info({ site_id }, 'repository disconnected'))
  })
}

/** Forgets the previews, approvals, comments and reports of a repository, which do not apply to another one. The caller holds the locks of project and site. */
async function forgetRepository(tx: Tx, siteId: string, now: Date): Promise<void> {
  await forgetForge(tx, siteId)
  await closeBranchPreviewsOfSite(tx, siteId, now)
}

const sealToken = ({ keyring }: Services, siteId: string, token: string | null) =>
  token && seal(keyring, token, { table: 'git_connections', id: siteId, column: 'token_sealed' })

/** @throws AppError `invalid` when the token would be sent to another server than it was given for */
function keptToken(before: GitConnectionRow | undefined, repoUrl: string): string | null {
  if (!before?.token_sealed) return null
  if (new URL(before.repo_url).origin === new URL(repoUrl).origin) return before.token_sealed
  throw invalid('token belongs to the server of the former repo_url: give one for the new server, or null for none')
}

const isSameRepository = (one: string, other: string) => bare(one) === bare(other)
const bare = (url: string) => url.replace(/\.git$/, '')

/**
 * Creates the secret of a connection's webhook, which replaces the previous one.
 * @returns the secret, which is kept sealed
 * @throws AppError `conflict` when no repository is connected
 */
export async function makeSecretOfWebhook(
  { db, keyring, clock, log }: Services,
  { id: site_id, project_id }: Site,
): Promise<string> {
  const secret = makeWebhookSecret()
  const sealed = seal(keyring, secret, { table: 'git_connections', id: site_id, column: 'webhook_secret_sealed' })
  if (!(await setWebhookSecret(db, project_id, site_id, { sealed, now: clock() }))) throw notConnected()
  log.info({ site_id }, 'webhook secret created')
  return secret
}
