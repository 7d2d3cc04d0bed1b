import { bearer } from './authorization.ts'
import { type Comments, htmlMarker, putComment } from './comment.ts'
import { field, idIn, requireId, text } from './json.ts'
import type { DeploymentReport, ForgeClient } from './reports.ts'
import type { Api } from './transport.ts'

const needs = {
  status: 'the permission “Commit statuses: write”, or the scope repo:status',
  deployment: 'the permission “Deployments: write”, or the scope repo_deployment',
  comment: 'the permission “Pull requests: write”, or the scope repo',
}

/** GitHub and GitHub Enterprise. */
export function githubClient(repository: string, open: (headers: Record<string, string>) => Api, token: string): ForgeClient {
  const api = open({
    accept: 'application/vnd.github+json',
    'x-github-api-version': '2022-11-28',
    authorization: bearer(token),
  })
  const repo = `/repos/${repository.split('/').map(encodeURIComponent).join('/')}`
  return {
    forge: 'github',
    async setStatus({ commit, state, site, description, target_url }) {
      const body = { state: statusStates[state], target_url, description, context: `plinth/${site.name}` }
      await api({ method: 'POST', path: `${repo}/statuses/${commit}`, body, needs: needs.status })
    },
    recordDeployment: (report) => recordDeployment(api, repo, report),
    putComment: (report) => putComment(commentsOf(api, repo, report.number), report, htmlMarker(report.site_id)),
  }
}

/** The states of a commit at GitHub and Gitea, which have none for what was cancelled. */
export const statusStates = { pending: 'pending', success: 'success', failure: 'failure', cancelled: 'error' } as const

const deploymentStates = {
  pending: 'in_progress',
  success: 'success',
  failure: 'failure',
  cancelled: 'error',
  inactive: 'inactive',
  replaced: 'inactive',
  overtaken: 'inactive',
} as const

async function recordDeployment(api: Api, repo: string, report: DeploymentReport): Promise<string | undefined> {
  const { description, log_url, site_url } = report
  const state = deploymentStates[report.state]
  const known = report.known_id ?? (await findDeployment(api, repo, report))
  if (known === undefined && state === 'inactive') return undefined
  const id = known ?? (await createDeployment(api, repo, report))
  const body = { state, description, log_url, environment_url: site_url }
  await api({ method: 'POST', path: `${repo}/deployments/${id}/statuses`, body, needs: needs.deployment })
  return id
}

/** Finds the deployment of an earlier try. */
async function findDeployment(api: Api, repo: string, { commit, environment, deploy_id }: DeploymentReport) {
  const query = new URLSearchParams({ sha: commit, environment, per_page: '100' }).toString()
  const listed = await api({ path: `${repo}/deployments?${query}`, needs: needs.deployment })
  const deployments = Array.isArray(listed) ? listed : []
  return idIn(
    deployments.find((one) => text(payloadOf(one), 'deploy_id') === deploy_id),
    'id',
  )
}

/** Some versions return the payload as a text. */
function payloadOf(deployment: unknown): unknown {
  const payload = field(deployment, 'payload')
  return typeof payload === 'string' && payload.startsWith('{') ? JSON.parse(payload) : payload
}

async function createDeployment(api: Api, repo: string, report: DeploymentReport): Promise<string> {
  const body = {
    ref: report.commit,
    environment: report.environment,
    description: report.description,
    payload: { deploy_id: report.deploy_id },
    production_environment: report.is_live,
    transient_environment: !report.is_live,
    // it would merge the default branch, and wait for other checks
    auto_merge: false,
    required_contexts: [],
  }
  return requireId(await api({ method: 'POST', path: `${repo}/deployments`, body, needs: needs.deployment }))
}

function commentsOf(api: Api, repo: string, number: number): Comments {
  const path = `${repo}/issues/${number}/comments`
  return {
    async list(page) {
      const listed = await api({ path: `${path}?per_page=100&page=${page}`, needs: needs.comment })
      return Array.isArray(listed) && listed.length > 0 ? listed.map(commentOf) : undefined
    },
    author: async () => idIn(await api({ path: '/user', needs: needs.comment }), 'id'),
    create: async (body) => requireId(await api({ method: 'POST', path, body: { body }, needs: needs.comment })),
    async edit(id, body) {
      await api({ method: 'PATCH', path: `${repo}/issues/comments/${id}`, body: { body }, needs: needs.comment })
    },
  }
}

export const commentOf = (comment: unknown) => ({
  id: requireId(comment),
  author: idIn(comment, 'user', 'id'),
  body: text(comment, 'body') ?? '',
})
