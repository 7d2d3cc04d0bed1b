import { randomBytes } from 'node:crypto'
import { notFound } from '../../core/errors.ts'
import { sha256Hex } from '../../infra/crypto/sha256.ts'
import type { Services } from '../services.ts'
import type { SiteRow } from '../sites/sites.ts'
import { acceptGitDeploy, notConnected } from './accept.ts'
import { type HookedConnection, setDeployHook, touchDeployHook } from './connections.ts'
import { siteOf } from './take-events.ts'

type Site = Pick<SiteRow, 'id' | 'project_id'>

export const hashDeployHook = (secret: string) => sha256Hex(secret)
export const noDeployHook = () => notFound('there is no deploy hook at this address; create one for the site')

/**
 * Creates the deploy hook of a site, which replaces the previous one.
 * @returns its secret, which is not stored
 * @throws AppError `conflict` when no repository is connected
 */
export async function makeDeployHook(
  { db, clock, log }: Services,
  { id: site_id, project_id }: Site,
): Promise<{ readonly secret: string; readonly created_at: Date }> {
  const secret = randomBytes(32).toString('base64url')
  const now = clock()
  if (!(await setDeployHook(db, project_id, site_id, { sha256: hashDeployHook(secret), now }))) throw notConnected()
  log.info({ site_id }, 'deploy hook created')
  return { secret, created_at: now }
}

export async function removeDeployHook({ db, log }: Services, { id: site_id, project_id }: Site): Promise<void> {
  await setDeployHook(db, project_id, site_id, null)
  log.info({ site_id }, 'deploy hook removed')
}

/**
 * Deploys the connected branch after a call of its deploy hook. Returns the deploy's id.
 * @throws AppError `not_found` when the hook was replaced or removed since it was found; as {@link acceptGitDeploy}
 */
export async function deployByHook(services: Services, connection: HookedConnection, sha256: string): Promise<string> {
  const { deploy } = await acceptGitDeploy(services, siteOf(connection), {
    git: null,
    before: async (tx) => {
      if (!(await touchDeployHook(tx, sha256, services.clock()))) throw noDeployHook()
      return undefined
    },
  })
  services.log.info({ site_id: connection.site_id, deploy_id: deploy.id }, 'deploy hook called')
  return deploy.id
}
