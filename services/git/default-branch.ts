import { unavailable } from '../../core/errors.ts'
import { branchProblem } from '../../core/git-remotes.ts'
import type { Config } from '../../infra/config.ts'
import { openResolver } from '../../infra/dns/resolver.ts'
import { dnsServers } from '../../infra/dns/servers.ts'
import { FairQueue } from '../../infra/fair-queue.ts'
import type { Logger } from '../../infra/log.ts'
import type { LookUp } from '../../infra/net/fetch-target.ts'

/** Finds the default branch of a repository; `main` when it is not known within 4 s. Never rejects. */
export type FindDefaultBranch = (
  projectId: string,
  repository: { readonly repo_url: string; readonly token: string | undefined },
) => Promise<string>

const inAllMs = 4000
/** The part of that time for which a look-up may wait for a slot. */
const patienceMs = 2000
const fallback = 'main'

/**
 * The look-ups of all projects share 16 slots, two for each project.
 * @throws ConfigError when a name server in the settings is no IP address
 */
export function openDefaultBranchFinder(config: Config, log: Logger): FindDefaultBranch {
  const { allowPrivate } = config.git
  // the system's look-ups block the threads of this process, so only hosts that an operator lets into the private network get them
  const lookUp = allowPrivate ? undefined : openLookUp(config)
  const queue = new FairQueue({
    slots: 16,
    slotsPerPayer: 2,
    waitingRoom: { total: 64, perPayer: 8, overflow: tooMany },
    patience: { ms: patienceMs, late: tooMany },
  })

  return async (project_id, repository) => {
    const latest = performance.now() + inAllMs
    try {
      const found = await queue.run(project_id, async () => {
        // isomorphic-git is loaded at its first use
        const { findDefaultBranch } = await import('../../infra/git/default-branch.ts')
        const timeoutMs = Math.max(1, Math.round(latest - performance.now()))
        return await findDefaultBranch({ ...repository, allowPrivate, lookUp, timeoutMs })
      })
      return found === undefined || branchProblem(found) !== undefined ? fallback : found
    } catch (error) {
      // a message of a GitError holds no secret; what isomorphic-git throws may quote the server
      const { reason, refusedName, name } = error as Error & { reason?: string; refusedName?: string }
      log.info({ project_id, reason: refusedName ?? reason ?? name }, 'default branch not found')
      return fallback
    }
  }
}

const tooMany = () => unavailable('too many repositories are looked up', 5, 'busy')

/** Looks names up at the name servers of the platform, which takes no thread. */
function openLookUp(config: Config): LookUp {
  const resolver = openResolver({ servers: dnsServers(config.dns.servers), inAllMs: patienceMs })
  return async (host) => {
    const [a, aaaa] = await Promise.all([resolver.lookup(host, 'A'), resolver.lookup(host, 'AAAA')])
    return [
      ...(a.kind === 'found' ? a.records.map((address) => ({ address, family: 4 })) : []),
      ...(aaaa.kind === 'found' ? aaaa.records.map((address) => ({ address, family: 6 })) : []),
    ]
  }
}
