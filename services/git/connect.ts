import { invalid } from '../../core/errors.ts'
import { seal } from '../../infra/crypto/seal.ts'
import { makeWebhookSecret } from '../../infra/forges/verify.ts'
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

type Site = Pick<SiteRow, 'id' | 'project_id'>

/**
 * Connects a repository to the site, or changes the connection. The state of another repository is forgotten.
 * @param token kept when undefined, erased by null
 * @throws AppError `invalid` when the kept token is for another server; `conflict` when the site is in the trash
 */
export function connectRepository(
  services: Services,
  { id: site_id, project_id }: Site,
  settings: Omit<ConnectionSettings, 'site_id' | 'project_id' | 'token_sealed'>,
  token: string | null | undefined,
): Promise<GitConnectionRow> {
  const { clock, log } = services
  return withProject(services, project_id, async (tx) => {
    await lockLiveSite(tx, project_id, site_id)
    const before = await findConnection(tx, site_id)
    const token_sealed = token === undefined ? keptToken(before, settings.repo_url) : sealToken(services, site_id, token)
    if (before && !isSameRepository(before.repo_url, settings.repo_url)) await forgetRepository(tx, site_id, clock())
    tx.afterCommit(() => log.info({ site_id }, 'repository connected'))
    return await saveConnection(tx, { site_id, project_id, ...settings, token_sealed }, clock())
  })
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
